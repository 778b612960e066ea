"""Receipts: handles of single deliveries, which clients send back to acknowledge them (rules 5.12.2)."""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

from rmqpull_broker.core.errors import InvalidReceiptHandle
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.names import name_pop_retry_topic

ORDER_REVIVE_QUEUE = 999
"""Used as the revive queue of an ordered delivery, which needs none."""
REVIVE_QUEUES = 8
"""The number of revive queues of Apache's broker. Here a revive queue is only a number in a receipt."""
_FIELDS, _BROKER_NAME = 8, 5
_NUMBERS = re.compile(r"-?[0-9]{1,19}( -?[0-9]{1,19})*")


class TopicKind(enum.IntEnum):
    """Whether a message comes from the topic itself, or from the topic of its retries."""

    NORMAL = 0
    RETRY = 1
    RETRY_V2 = 2


class Receipt(NamedTuple):
    """One delivery. Times are in milliseconds. ``start_offset`` is the first offset that was delivered with it."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    topic_kind: TopicKind
    broker_name: str
    queue_id: int
    queue_offset: int
    physical_offset: int = -1

    @property
    def is_ordered(self) -> bool:
        """Whether the message was delivered in order."""
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    @property
    def visible_ms(self) -> int:
        """When the message becomes visible again, in milliseconds since the epoch."""
        return self.pop_time_ms + self.invisible_ms

    def is_expired(self, now_ms: int) -> bool:
        """Whether the receipt can no longer be used."""
        return self.visible_ms <= now_ms

    def find_queue(self, group: str, topic: str) -> MessageQueue:
        """Returns the queue from which the message was delivered to a group that reads ``topic``."""
        name = topic if self.topic_kind is TopicKind.NORMAL else name_pop_retry_topic(group, topic)
        return MessageQueue(name, self.broker_name, self.queue_id)

    @property
    def handle(self) -> str:
        """The text that clients get and send back."""
        fields = (*self[:4], int(self.topic_kind), *self[5:])
        return " ".join(map(str, fields))


class DeliveredMessage(NamedTuple):
    """A message that was delivered to a group from a queue."""

    group: str
    queue: MessageQueue
    receipt: Receipt


def parse_handle(handle: str) -> Receipt:
    """Parses a receipt from the text that a client sends. Raises InvalidReceiptHandle."""
    fields = handle.split(" ")
    numbers = fields[: _FIELDS + 1]
    try:
        broker_name = numbers.pop(_BROKER_NAME)
        if len(fields) < _FIELDS or not _NUMBERS.fullmatch(" ".join(numbers)):
            raise InvalidReceiptHandle("receipt handle is invalid")
        start, pop_time_ms, invisible_ms, revive_queue_id, kind, queue_id, offset, *others = map(int, numbers)
        topic_kind = TopicKind(kind)
    except (IndexError, ValueError):
        raise InvalidReceiptHandle("receipt handle is invalid") from None
    return Receipt(
        start, pop_time_ms, invisible_ms, revive_queue_id, topic_kind, broker_name, queue_id, offset, *others
    )
