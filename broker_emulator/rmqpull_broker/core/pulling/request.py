"""PULL_MESSAGE as a client sends it, whatever the protocol, what it meets at its broker, and what is found of it before
the store is read (rules 1.6.1, 3.1, 4.5).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.clients.members import ConsumeType, MessageModel
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.answers import MASTER, ReadRole


class PullSysFlag(enum.IntFlag):
    """The bits of ``sysFlag``. CLASS_FILTER means nothing to a broker of today."""

    NONE = 0
    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL_MESSAGE = 16


class RequestSource(enum.IntEnum):
    """Who pulls: a client's library, or a proxy on behalf of clients of some kind."""

    SDK = -1
    PROXY_FOR_ORDER = 0
    PROXY_FOR_BROADCAST = 1
    PROXY_FOR_STREAM = 2


@dataclass(frozen=True)
class PullRequest:
    """One pull of one queue. Times are milliseconds; ``offset`` and ``commit_offset`` are queue offsets.

    ``remote_address`` is named in refusals; ``channel_id`` is the connection's in the consumer registry. The filter is
    made from ``subscription`` and ``expression_type``, where None is an absent field. ``is_strict`` refuses a filter
    that cannot be read, which over the remoting protocol lets every message through.
    """

    group: str
    queue: MessageQueue
    offset: int = 0
    max_msg_nums: int = 32
    sys_flag: PullSysFlag = PullSysFlag.SUBSCRIPTION
    commit_offset: int = 0
    suspend_timeout_ms: int = 0
    subscription: str | None = "*"
    expression_type: str | None = None
    sub_version: int = 0
    request_source: RequestSource = RequestSource.SDK
    remote_address: str = ""
    channel_id: str = ""
    is_strict: bool = False

    @property
    def commits(self) -> bool:
        """Whether ``commit_offset`` becomes the group's consumer offset."""
        return bool(self.sys_flag & PullSysFlag.COMMIT_OFFSET)

    @property
    def suspends(self) -> bool:
        """Whether the broker may hold it when there is nothing new."""
        return bool(self.sys_flag & PullSysFlag.SUSPEND)

    @property
    def brings_subscription(self) -> bool:
        """Whether it says itself what it wants; otherwise the group's heartbeats do."""
        return bool(self.sys_flag & PullSysFlag.SUBSCRIPTION)

    @property
    def is_lite(self) -> bool:
        """Whether it comes as LITE_PULL_MESSAGE."""
        return bool(self.sys_flag & PullSysFlag.LITE_PULL_MESSAGE)


@dataclass(frozen=True)
class PullContext:
    """What a pull meets at its broker beside topics, groups and consumers. The defaults are those of every broker here.

    Some belong to features that are not served, and are kept so that every answer of RocketMQ can be given: static
    topics (``leads_queue``), UPDATE_GROUP_FORBIDDEN (``is_topic_forbidden``), cold-data control, and progress of
    broadcasting groups that the broker keeps (``broadcast_offset``, -1 for none).
    """

    broker_ip: str = "127.0.0.1"
    role: ReadRole = MASTER
    leads_queue: bool = True
    is_topic_forbidden: bool = False
    reads_cold_data: bool = False
    broadcast_offset: int = -1
    is_store_readable: bool = True


DEFAULT_CONTEXT = PullContext()


class Compensation(NamedTuple):
    """A pull's side effect: the registry remembers how a group consumes that may never send a heartbeat."""

    group: str
    consume_type: ConsumeType
    message_model: MessageModel
    subscription: SubscriptionData | None = None

    def remember(self, registry: ConsumerRegistry) -> None:
        """Tells the registry."""
        registry.compensate(self.group, self.consume_type, self.message_model)
        if self.subscription is not None:
            registry.compensate_subscription(self.group, self.subscription)


@dataclass(frozen=True)
class PullVerdict:
    """What the checks came to: a refusal, or a filter to read the store with, or an offset to answer OFFSET_RESET with.

    The side effects hold in any case, so a refusal is no exception here.
    """

    refusal: BrokerError | None = None
    message_filter: MessageFilter = EVERYTHING
    reset_offset: int | None = None
    compensation: Compensation | None = None
