"""All consume queues of the broker: the message store that the core reads."""

from __future__ import annotations

import pyarrow as pa

from rmqpull_broker.core.facts import ColumnsStored, RowsStored
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.store.queue import ConsumeQueue

_EMPTY = Bounds(0, 0)


class ConsumeQueues:
    """Consume queues by message queue; one is made by the first message that is stored in it."""

    def __init__(self) -> None:
        self._queues: dict[MessageQueue, ConsumeQueue] = {}

    def bounds(self, queue: MessageQueue) -> Bounds:
        """The readable range; ``(0, 0)`` for a queue never written."""
        consume_queue = self._queues.get(queue)
        return _EMPTY if consume_queue is None else consume_queue.bounds()

    def read(self, queue: MessageQueue, from_offset: int, until_offset: int) -> list[pa.RecordBatch]:
        """The rows of ``[from_offset, until_offset)``, which must lie within the bounds, as slices in order."""
        return self._queues[queue].read(from_offset, until_offset)

    def append(self, stored: RowsStored | ColumnsStored) -> None:
        """Makes the messages of a kept fact readable."""
        if isinstance(stored, RowsStored):
            self._queue(stored.queue).append_rows(stored.rows)
            return
        place = 0
        for part in stored.parts:
            self._queue(part.queue).append_columns(stored.batch.slice(place, part.row_count))
            place += part.row_count

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Forgets the messages of a queue before ``min_offset``."""
        self._queue(queue).trim(min_offset)

    def drop(self, topic: str) -> None:
        """Forgets all queues of a topic."""
        for queue in [queue for queue in self._queues if queue.topic == topic]:
            del self._queues[queue]

    def _queue(self, queue: MessageQueue) -> ConsumeQueue:
        return self._queues.setdefault(queue, ConsumeQueue())
