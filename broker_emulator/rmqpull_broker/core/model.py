"""The data types of the broker: topics, groups, queues and messages. Imports nothing else of the broker."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rmqpull_proto.remoting.properties import DELAY, PRIORITY, SHARDING_KEY, TIMER_DELAY_MS, TIMER_DELAY_SEC

_DELAYS = frozenset((DELAY, TIMER_DELAY_SEC, TIMER_DELAY_MS))


class TopicType(enum.Enum):
    """Which messages a topic accepts (``message.type`` of a RocketMQ topic)."""

    NORMAL = "NORMAL"
    FIFO = "FIFO"
    DELAY = "DELAY"
    TRANSACTION = "TRANSACTION"
    PRIORITY = "PRIORITY"
    MIXED = "MIXED"


class BodyEncoding(enum.IntEnum):
    """How a body is compressed. The broker never compresses or decompresses a body (rules 3.10.2).

    The first numbers are those of ``apache.rocketmq.v2.Encoding``, whose GZIP stands for every kind of compression. The
    numbers from 256 are the bits of RocketMQ's system flag (rules 4.7): bit 0, and the type in bits 8 to 10.
    """

    IDENTITY = 1
    GZIP = 2
    """A gzip or a zlib stream; its first bytes say which."""
    LZ4 = 0x101
    """An LZ4 frame."""
    ZSTD = 0x201
    ZLIB = 0x301


class MessageQueue(NamedTuple):
    """One queue of a topic. Each broker counts its own queue ids, so the broker's name is part of the identity."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


class Bounds(NamedTuple):
    """The readable range ``[min_offset, max_offset)`` of a queue, in queue offsets."""

    min_offset: int
    max_offset: int


PERM_READ = 4
PERM_WRITE = 2
PERM_INHERIT = 1
"""Bits of a permission (rules 3.9.1)."""


@dataclass(frozen=True)
class TopicConfig:
    """A topic, which has the same queues on every broker (rules 3.9.1).

    Producers see the queues below ``write_queue_nums``, consumers those below ``read_queue_nums``. Every creation
    has a new ``creation_id``, which distinguishes a topic from an earlier one of the same name.
    """

    name: str
    read_queue_nums: int
    write_queue_nums: int
    topic_type: TopicType = TopicType.NORMAL
    creation_id: str = ""
    perm: int = PERM_READ | PERM_WRITE
    order: bool = False

    @property
    def is_readable(self) -> bool:
        """Whether consumers may pull from the topic."""
        return bool(self.perm & PERM_READ)

    @property
    def is_writable(self) -> bool:
        """Whether producers may send to the topic."""
        return bool(self.perm & PERM_WRITE)


@dataclass(frozen=True)
class ExponentialBackoff:
    """Delays that grow by a factor, in milliseconds."""

    initial_ms: int
    max_ms: int
    multiplier: float


@dataclass(frozen=True)
class CustomizedBackoff:
    """One delay for each further attempt, in milliseconds. The last one applies to all attempts after it."""

    next_ms: tuple[int, ...]


@dataclass(frozen=True)
class GroupConfig:
    """A subscription group (rules 3.9.4). Without a retry policy of its own it has Apache's default."""

    name: str
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    consume_message_orderly: bool = False
    retry_queue_nums: int = 1
    retry_max_times: int = 16
    notify_consumer_ids_changed_enable: bool = True
    retry_policy: ExponentialBackoff | CustomizedBackoff | None = None
    group_sys_flag: int = 0


@dataclass(frozen=True)
class Message:
    """One message as a producer sends it. Times are in milliseconds since the epoch.

    ``system_properties`` has RocketMQ's own properties without a field here, such as RETRY_TOPIC or PGROUP.
    """

    body: bytes
    msg_id: str
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    message_group: str | None = None
    delivery_timestamp_ms: int | None = None
    born_timestamp_ms: int = 0
    born_host: str = ""
    body_encoding: BodyEncoding = BodyEncoding.IDENTITY
    trace_context: str | None = None
    transactional: bool = False
    system_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def topic_type(self) -> TopicType:
        """The topic type that the message requires, by its properties (rules 5.11, check 15)."""
        if self.transactional:
            return TopicType.TRANSACTION
        if self.delivery_timestamp_ms is not None or not _DELAYS.isdisjoint(self.system_properties):
            return TopicType.DELAY
        if self.sharding_key is not None:
            return TopicType.FIFO
        return TopicType.PRIORITY if PRIORITY in self.system_properties else TopicType.NORMAL

    @property
    def sharding_key(self) -> str | None:
        """The message group, or the one that the user set as a property."""
        return self.properties.get(SHARDING_KEY) if self.message_group is None else self.message_group


@dataclass(frozen=True)
class StoredMessage:
    """One message with the fields that the broker sets when it stores the message."""

    message: Message
    queue_offset: int
    store_timestamp_ms: int
    store_host: str
    reconsume_times: int = 0


class LoggedMessage(NamedTuple):
    """Where the commit log has rows of a batch as one Arrow message: segment, log position, length, CRC-32, rows.

    Bit n of ``column_bits`` says that the message has column n of ``columns.UNPLACED_SCHEMA``; others are null.
    """

    segment: int
    position: int
    length: int
    checksum: int
    row_count: int
    column_bits: int
