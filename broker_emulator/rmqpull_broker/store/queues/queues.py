"""All consume queues of the broker: the message store that the core reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Set
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored
from rmqpull_broker.core.state.names import DELAY_TOPICS
from rmqpull_broker.core.state.ports import LogRange, RetentionLimits, Span
from rmqpull_broker.store.log.rows import LoggedRows
from rmqpull_broker.store.queues.chunks import FreshChunk, SavedChunk
from rmqpull_broker.store.queues.queue import ConsumeQueue

SLICES_PER_BATCH_MAX = 16
"""A smaller part of a batch than one so many-th is copied, or it would keep all of the batch in memory."""

_EMPTY = Bounds(0, 0)
_NOWHERE = LogRange(0, 0, 0)


class SegmentMark(NamedTuple):
    """What the queues were when a segment began: everything below lies in segments before it."""

    segment: int
    newest_store_ms: int
    max_offsets: dict[MessageQueue, int]


class QueueIndex(NamedTuple):
    """What is kept of one queue when everything else of it is in queue files and in facts."""

    queue: MessageQueue
    min_offset: int
    unsaved_from: int
    saved: list[SavedChunk]


class ConsumeQueues:
    """Consume queues by message queue; one is made by the first message that is stored in it.

    ``load`` reads chunks that were saved; without it nothing may be.
    """

    def __init__(self, load: Callable[[MessageQueue, SavedChunk], pa.RecordBatch] | None = None) -> None:
        self._load = load
        self._queues: dict[MessageQueue, ConsumeQueue] = {}
        self._written = _NOWHERE
        self._newest_store_ms = 0
        self.marks: list[SegmentMark] = []
        self.unsaved_bytes = 0
        # Whether messages came since the newest mark.
        self.segment_has_messages = False

    # --- the message store ---------------------------------------------------------------------------------------

    def bounds(self, queue: MessageQueue) -> Bounds:
        """The readable range; ``(0, 0)`` for a queue never written."""
        consume_queue = self._queues.get(queue)
        return _EMPTY if consume_queue is None else consume_queue.bounds()

    def read(self, queue: MessageQueue, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        """The rows of ``[from_offset, until_offset)``, which must lie within the bounds, as slices in order."""
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            return iter(())
        self._change(consume_queue, lambda: consume_queue.seal(until_offset))
        return consume_queue.read(from_offset, until_offset)

    def time_range(self, queue: MessageQueue, timestamp_ms: int) -> Bounds:
        """Offsets ``[low, high]`` that hold the first one stored at or after ``timestamp_ms``, without reading."""
        consume_queue = self._queues.get(queue)
        return _EMPTY if consume_queue is None else consume_queue.time_range(timestamp_ms)

    def spans(self, queue: MessageQueue, from_offset: int, until_offset: int) -> list[Span]:
        """What is known, without reading, of ``[from_offset, until_offset)``, which must lie within the bounds."""
        consume_queue = self._queues.get(queue)
        return [] if consume_queue is None else consume_queue.spans(from_offset, until_offset)

    def append(self, stored: RowsStored | ColumnsStored) -> None:
        """Makes the messages of a kept fact readable."""
        self._newest_store_ms = max(self._newest_store_ms, stored.store_timestamp_ms)
        self.segment_has_messages = True
        if isinstance(stored, RowsStored):
            self._append_rows(stored)
            return
        place, small_rows = 0, stored.batch.num_rows // SLICES_PER_BATCH_MAX
        for part in stored.parts:
            rows = stored.batch.slice(place, part.row_count)
            place += part.row_count
            self._append_columns(part.queue, pa.concat_batches([rows]) if part.row_count <= small_rows else rows)

    def _append_rows(self, stored: RowsStored) -> None:
        queue = self._queue(stored.queue)
        before = queue.unsaved_bytes
        if isinstance(stored, LoggedRows):
            queue.append_logged(stored, self._written)
        else:
            queue.append_rows(stored.rows, self._written)
        self.unsaved_bytes += queue.unsaved_bytes - before

    def _append_columns(self, message_queue: MessageQueue, rows: pa.RecordBatch) -> None:
        queue = self._queue(message_queue)
        self._change(queue, lambda: queue.append_columns(rows, self._written))

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Forgets what lies before ``min_offset``; of a queue never written, nothing."""
        consume_queue = self._queues.get(queue)
        if consume_queue is not None:
            self._change(consume_queue, lambda: consume_queue.trim(min_offset))

    def drop(self, topics: Set[str]) -> None:
        """Forgets all queues of these topics; if one comes to be again they begin at 0."""
        for queue in [queue for queue in self._queues if queue.topic in topics]:
            self.unsaved_bytes -= self._queues.pop(queue).unsaved_bytes
            for mark in self.marks:
                mark.max_offsets.pop(queue, None)

    def _queue(self, queue: MessageQueue) -> ConsumeQueue:
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            # Without queue files, what waits for long would take most of the memory.
            packs = self._load is None and queue.topic in DELAY_TOPICS
            consume_queue = self._queues[queue] = ConsumeQueue(self._loader(queue), packs=packs)
        return consume_queue

    def _loader(self, queue: MessageQueue) -> Callable[[SavedChunk], pa.RecordBatch]:
        def load(chunk: SavedChunk) -> pa.RecordBatch:
            assert self._load is not None, "chunks are saved only where they can be loaded"
            return self._load(queue, chunk)

        return load

    def _change(self, queue: ConsumeQueue, change: Callable[[], None]) -> None:
        before = queue.unsaved_bytes
        change()
        self.unsaved_bytes += queue.unsaved_bytes - before

    # --- retention in memory -------------------------------------------------------------------------------------

    def expired(self, limits: RetentionLimits, now_ms: int) -> list[tuple[MessageQueue, int]]:
        """Which queues lose chunks that are too old or, over all queues, too many, and their min offsets then."""
        for consume_queue in self._queues.values():
            self._change(consume_queue, partial(consume_queue.seal, consume_queue.bounds().max_offset))
        unsaved = ((queue, chunk) for queue, held in self._queues.items() for chunk in held.fresh())
        oldest_first = sorted(unsaved, key=lambda entry: (entry[1].last_store_ms, entry[1].first_offset))
        byte_count, min_offsets = self.unsaved_bytes, dict[MessageQueue, int]()
        for queue, chunk in oldest_first:
            is_too_much = limits.log_bytes_max is not None and byte_count > limits.log_bytes_max
            if not is_too_much and not limits.is_expired(chunk.last_store_ms, now_ms):
                break
            byte_count -= chunk.byte_count
            min_offsets[queue] = chunk.first_offset + chunk.row_count
        return list(min_offsets.items())

    # --- what the storage asks -----------------------------------------------------------------------------------

    def applying(self, written: LogRange) -> None:
        """Tells where the facts lie that are appended next, and notes where each queue is when a segment begins."""
        if not self.marks or self.marks[-1].segment < written.segment:
            ends = {queue: consume_queue.bounds().max_offset for queue, consume_queue in self._queues.items()}
            self.marks.append(SegmentMark(written.segment, self._newest_store_ms, ends))
            self.segment_has_messages = False
        self._written = written

    @property
    def newest_store_ms(self) -> int:
        """The newest store time of all messages that ever were."""
        return self._newest_store_ms

    def mark_at(self, position: int) -> SegmentMark | None:
        """What the queues were when the first segment at or behind ``position`` began that changed them."""
        return next((mark for mark in self.marks if mark.segment >= position), None)

    def min_offsets_at(self, position: int) -> list[tuple[MessageQueue, int]]:
        """Which queues lose messages, and what their min offsets are then, when the log is cut at ``position``."""
        mark = self.mark_at(position)
        ends = mark.max_offsets.items() if mark is not None else ()
        return [(queue, end) for queue, end in ends if end > self.bounds(queue).min_offset]

    def forget_marks_before(self, position: int) -> None:
        """Lets go of what nobody asks for when the log begins at ``position``."""
        self.marks = [mark for mark in self.marks if mark.segment >= position]

    def ready(self) -> list[tuple[MessageQueue, FreshChunk]]:
        """The chunks that may be saved, each queue's in order."""
        return [(queue, chunk) for queue, consume_queue in self._queues.items() for chunk in consume_queue.ready()]

    def finalize_down_to(self, byte_count: int) -> None:
        """Makes the largest queues ready to be saved as they are, until so much is left that is not ready."""
        loose = sorted(((queue.loose_bytes, queue) for queue in self._queues.values()), key=lambda pair: -pair[0])
        left = sum(loose_bytes for loose_bytes, _ in loose)
        for loose_bytes, queue in loose:
            if left <= byte_count:
                break
            left -= loose_bytes
            self._change(queue, queue.finalize)

    def unsaved_since(self, position: int) -> int:
        """The log position from which on everything lies that is in no queue file; at most ``position``."""
        return min((queue.unsaved_since(position) for queue in self._queues.values()), default=position)

    def install(self, queue: MessageQueue, chunk: FreshChunk, saved: SavedChunk) -> bool:
        """Forgets the rows of a chunk that was saved; False when its queue has changed so that it is of no use."""
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            return False
        before = consume_queue.unsaved_bytes
        is_installed = consume_queue.install(chunk, saved)
        self.unsaved_bytes += consume_queue.unsaved_bytes - before
        return is_installed

    def index(self) -> list[QueueIndex]:
        """What to keep of the queues beside :meth:`unsaved`."""
        return [
            QueueIndex(queue, consume_queue.bounds().min_offset, consume_queue.unsaved_from, consume_queue.saved())
            for queue, consume_queue in self._queues.items()
        ]

    def unsaved(self) -> list[Fact]:
        """The messages that are in no queue file, as facts that bring them back behind those that are."""
        facts: list[Fact] = []
        for queue, consume_queue in self._queues.items():
            self._change(consume_queue, consume_queue.seal_logged)
            facts += consume_queue.unsaved(queue)
        return facts

    def restore(self, index: Iterable[QueueIndex], marks: Iterable[SegmentMark], newest_store_ms: int) -> None:
        """Takes over what :meth:`index` and ``marks`` gave; to be called on empty queues."""
        for queue, min_offset, unsaved_from, saved in index:
            self._queues[queue] = ConsumeQueue(self._loader(queue), min_offset, unsaved_from, saved)
        self.marks = list(marks)
        self._newest_store_ms = newest_store_ms
        self.segment_has_messages = bool(self.marks) and any(
            consume_queue.bounds().max_offset > self.marks[-1].max_offsets.get(queue, 0)
            for queue, consume_queue in self._queues.items()
        )
