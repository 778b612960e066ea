"""A pop: what a consumer requests, and what it gets. The same for every protocol (rules 3.17)."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.receipts import ORDER_REVIVE_QUEUE, Receipt, TopicKind
from rmqpull_broker.core.pulling.message_pull import Pulled

MESSAGES_MAX = 32
"""The most messages of one pop."""
ATTEMPT_ID_LENGTH_MAX = 255
"""The longest attempt id, in characters. It is stored with its batch. Those of Apache's clients have 36."""
ALL_QUEUES = -1
"""As a queue id: all queues that consumers see."""


class InitMode(enum.IntEnum):
    """Where a group without a consumer offset starts."""

    MIN = 0
    MAX = 1


@dataclass(frozen=True)
class PopRequest:
    """One pop of the queues of a topic on one broker. Times are in milliseconds.

    With ``in_order``, a queue's next batch is delivered only after the previous one was acknowledged or its invisible
    time has passed; the ``attempt_id`` that got a batch may get it again. ``init_mode`` says where a new group starts.
    """

    group: str
    topic: str
    broker_name: str
    queue_id: int = ALL_QUEUES
    max_msg_nums: int = MESSAGES_MAX
    invisible_ms: int = 60_000
    message_filter: MessageFilter = EVERYTHING
    in_order: bool = False
    attempt_id: str = ""
    init_mode: InitMode = InitMode.MAX

    def check(self) -> None:
        """Raises BadRequest for an id that is too long to keep."""
        if len(self.attempt_id) > ATTEMPT_ID_LENGTH_MAX:
            raise BadRequest(
                f"the attempt id has {len(self.attempt_id)} characters, more than {ATTEMPT_ID_LENGTH_MAX}: use a UUID"
            )


@dataclass(frozen=True)
class PoppedPart:
    """What a pop got from one queue. ``consumed_times`` counts earlier deliveries in order, by offset."""

    queue: MessageQueue
    topic_kind: TopicKind
    start_offset: int
    offsets: Sequence[int]
    pulled: Pulled
    consumed_times: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class PopResult:
    """What a pop got. ``rest_count`` counts the messages behind it, matching or not."""

    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    parts: Sequence[PoppedPart] = ()
    rest_count: int = 0

    @property
    def message_count(self) -> int:
        """The number of messages."""
        return sum(len(part.offsets) for part in self.parts)

    @property
    def is_ordered(self) -> bool:
        """Whether the messages were delivered in order."""
        return self.revive_queue_id == ORDER_REVIVE_QUEUE

    def make_receipt(self, part: PoppedPart, offset: int, physical_offset: int) -> Receipt:
        """Returns the receipt of one message of a part."""
        return Receipt(
            part.start_offset,
            self.pop_time_ms,
            self.invisible_ms,
            self.revive_queue_id,
            part.topic_kind,
            part.queue.broker_name,
            part.queue.queue_id,
            offset,
            physical_offset,
        )
