"""Queues whose history was rewritten, and where a query continues in them.

If a server's data was restored from a backup or lost its tail in a crash, or if a topic was created again, new messages
get offsets of messages that the query has read. Either the queue ends before the query's offset, or it has grown past
it since, and the last message that the query has passed, its *witness*, is now a different one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

from rmqpull_client.loss import Loss
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.witness import Witness

FindOffsetsAt = Callable[[Mapping[MessageQueue, int]], Mapping[MessageQueue, int]]


def _find_nothing(times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
    assert not times_ms, "there is no time without a query"
    return {}


@dataclass(frozen=True)
class Rewritten:
    """What a query knows of the history of its queues.

    ``queues`` are those with a message other than their witness. ``witnesses`` are those of all queues. ``planned_ms``
    is when the last micro-batch was planned, in milliseconds since the epoch, if that is known. ``find_offsets_at``
    finds the first message of each queue that was stored at or after a time.
    """

    queues: frozenset[MessageQueue] = frozenset()
    witnesses: Mapping[MessageQueue, Witness] = field(default_factory=dict)
    planned_ms: int | None = None
    find_offsets_at: FindOffsetsAt = _find_nothing

    def make_loss(self, queue: MessageQueue, offset: int, bounds: Bounds) -> Loss:
        """Returns the loss of a queue. The number of lost messages is unknown."""
        resume = f"continues with {self._name_resume(queue)}"
        witness = self.witnesses.get(queue)
        if queue not in self.queues or witness is None:
            text = (
                f"Queue {queue} ends at offset {bounds.max_offset}, before offset {offset}, which is the next one to "
                "read: the topic was truncated or created again."
            )
        else:
            text = (
                f"{_describe(queue, witness)}, and the queue has grown past offset {offset} since then. The query has "
                "not read the new messages before that offset."
            )
        return Loss(queue, offset, offset, text, resume)

    def make_losses_of_unfinished(self) -> list[Loss]:
        """Returns the losses of a micro-batch that was planned before its history was rewritten, and is not read yet.

        ``witnesses`` are those of its end.
        """
        return [self._make_loss_of_unfinished(queue) for queue in sorted(self.queues)]

    def _make_loss_of_unfinished(self, queue: MessageQueue) -> Loss:
        witness = self.witnesses[queue]
        end = witness.offset + 1
        text = f"{_describe(queue, witness)}, after the query had planned a micro-batch that it has not finished."
        resume = f"reads this micro-batch as it was planned, and then continues with {self._name_resume(queue)}"
        return Loss(queue, end, end, text, resume)

    def find_resume_offsets(self, queues: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
        """Returns the offsets at which the queues, with these bounds, continue."""
        times_ms = {queue: time_ms for queue in queues if (time_ms := self._find_time_ms(queue)) is not None}
        found = self.find_offsets_at(times_ms) if times_ms else {}
        return {queue: bounds.clamp(found.get(queue, bounds.min_offset)) for queue, bounds in queues.items()}

    def _find_time_ms(self, queue: MessageQueue) -> int | None:
        witness = self.witnesses.get(queue)
        return self.planned_ms if witness is None else witness.store_ms

    def _name_resume(self, queue: MessageQueue) -> str:
        time_ms = self._find_time_ms(queue)
        if time_ms is None:
            return "the earliest message of the queue, and may read some messages twice"
        time = datetime.fromtimestamp(time_ms / 1000, timezone.utc).isoformat(timespec="milliseconds")
        whose = "the query planned its last micro-batch" if queue not in self.witnesses else "that message was stored"
        return f"the first message that was stored at {time} or later, when {whose}, and may read some messages twice"


def _describe(queue: MessageQueue, witness: Witness) -> str:
    return (
        f"Queue {queue} has a different message at offset {witness.offset} from the one that the query has passed "
        f"there: its history was rewritten. The data of broker {queue.broker_name} was restored from a backup, or lost "
        f"its tail in a crash, or topic {queue.topic} was created again"
    )


NOTHING_REWRITTEN = Rewritten()
