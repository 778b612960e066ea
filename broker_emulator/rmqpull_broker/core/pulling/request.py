"""A pull request: what the client sends, what the checks know about it, and what they decide (rules 1.6.1, 3.1, 4.5).

The request is the same for every protocol.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.clients.members import ConsumerGroupInfo, ConsumeType, MessageModel
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter
from rmqpull_broker.core.model import GroupConfig, MessageQueue, TopicConfig
from rmqpull_broker.core.state.draft import Draft


class PullSysFlag(enum.IntFlag):
    """The bits of ``sysFlag``. Brokers ignore CLASS_FILTER today."""

    NONE = 0
    COMMIT_OFFSET = 1
    SUSPEND = 2
    SUBSCRIPTION = 4
    CLASS_FILTER = 8
    LITE_PULL_MESSAGE = 16


# Plain numbers: an operation on members of an enum takes a microsecond, and each pull makes a dozen.
_COMMIT_OFFSET, _SUSPEND = int(PullSysFlag.COMMIT_OFFSET), int(PullSysFlag.SUSPEND)
_SUBSCRIPTION, _LITE_PULL_MESSAGE = int(PullSysFlag.SUBSCRIPTION), int(PullSysFlag.LITE_PULL_MESSAGE)


class RequestSource(enum.IntEnum):
    """Who pulls: a client library, or a proxy for clients of one kind."""

    SDK = -1
    PROXY_FOR_ORDER = 0
    PROXY_FOR_BROADCAST = 1
    PROXY_FOR_STREAM = 2


@dataclass(frozen=True)
class PullRequest:
    """One pull of one queue. Times are in milliseconds; ``offset`` and ``commit_offset`` are queue offsets.

    Refusals name ``remote_address``. ``channel_id`` identifies the connection in the consumer registry.
    ``subscription`` and ``expression_type`` give the filter; None stands for an absent field. ``is_strict`` refuses a
    malformed filter, which matches every message in the remoting protocol.
    """

    group: str
    queue: MessageQueue
    offset: int = 0
    max_msg_nums: int = 32
    sys_flag: int = int(PullSysFlag.SUBSCRIPTION)
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
    def sets_offset(self) -> bool:
        """Whether the pull sets the group's consumer offset to ``commit_offset``."""
        return bool(self.sys_flag & _COMMIT_OFFSET)

    @property
    def may_park(self) -> bool:
        """Whether the broker may park the pull when there is no new message."""
        return bool(self.sys_flag & _SUSPEND)

    @property
    def brings_subscription(self) -> bool:
        """Whether the pull has its own subscription. Otherwise that of the group's heartbeats applies."""
        return bool(self.sys_flag & _SUBSCRIPTION)

    @property
    def is_lite(self) -> bool:
        """Whether the pull is a LITE_PULL_MESSAGE."""
        return bool(self.sys_flag & _LITE_PULL_MESSAGE)


@dataclass(frozen=True)
class PullContext:
    """What the texts of refusals say about the broker."""

    broker_ip: str = "127.0.0.1"


DEFAULT_CONTEXT = PullContext()


class Compensation(NamedTuple):
    """A side effect of a pull: the registry stores how its group consumes, because it may never send a heartbeat."""

    group: str
    consume_type: ConsumeType
    message_model: MessageModel
    subscription: SubscriptionData | None = None

    def apply(self, registry: ConsumerRegistry) -> None:
        """Stores the group's consumption in the registry."""
        registry.compensate(self.group, self.consume_type, self.message_model)
        if self.subscription is not None:
            registry.compensate_subscription(self.group, self.subscription)


@dataclass(frozen=True)
class PullVerdict:
    """The result of the checks: a refusal, or an offset for OFFSET_RESET, or a filter with which to read the queue.

    A refusal is not raised, because the side effects happen in any case.
    """

    refusal: BrokerError | None = None
    message_filter: MessageFilter = EVERYTHING
    reset_offset: int | None = None
    compensation: Compensation | None = None


class PullCheck:
    """One pull during its checks. Each check may use what the checks before it have found."""

    group: GroupConfig
    topic: TopicConfig
    consumers: ConsumerGroupInfo
    subscription: SubscriptionData

    def __init__(
        self, draft: Draft, registry: ConsumerRegistry, request: PullRequest, now_ms: int, context: PullContext
    ) -> None:
        self.draft = draft
        self.registry = registry
        self.request = request
        self.now_ms = now_ms
        self.context = context
        self.message_filter: MessageFilter = EVERYTHING
        self.reset_offset: int | None = None
        self.compensation: Compensation | None = None

    @property
    def uses_registry(self) -> bool:
        """Whether the subscription of the group's heartbeats applies, because the pull has none."""
        return not self.request.brings_subscription
