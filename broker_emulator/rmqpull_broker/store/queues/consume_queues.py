"""The consume queues of the broker: the message store that the core reads."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import (
    ClockRead,
    ColumnsStored,
    Fact,
    QueuesTrimmed,
    RowsStored,
    StagesEnded,
    TopicDeleted,
)
from rmqpull_broker.core.state.names import DELAY_TOPICS, STAGE_PREFIX
from rmqpull_broker.core.state.ports import LogRange, RetentionLimits, Span
from rmqpull_broker.store.log.rows import LoggedRows
from rmqpull_broker.store.queues.chunks import FreshChunk, SavedChunk
from rmqpull_broker.store.queues.consume_queue import ConsumeQueue

TAILS_AT_ONCE, TAIL_ROWS_AT_ONCE = 50, 2_048
"""The most tails, and the rows, that become chunks in one turn of the event loop."""
SLICES_PER_BATCH_MAX = 16
"""A part of a batch smaller than this fraction (1/16) is copied, because a slice keeps the whole batch in memory."""

READS_APART_MS = 60_000
"""The precision of ages of messages that a store without queue files got while its clock was behind."""
_EMPTY = Bounds(0, 0)


class SegmentMark(NamedTuple):
    """The queues at the beginning of a segment: every message below these offsets is in an earlier segment.

    No earlier message was written after ``newest_written_ms``, which is the newest store time unless the clock was set
    back since.
    """

    segment: int
    newest_store_ms: int
    newest_written_ms: int
    max_offsets: dict[MessageQueue, int]


class NewestTimes(NamedTuple):
    """The newest store time; the latest time at which the last message can have been written; the time at which the
    clock was last found to have been set back, or 0."""

    store_ms: int
    written_ms: int
    last_read_ms: int


class QueueIndex(NamedTuple):
    """A queue as a snapshot describes it: its min offset, and its chunks in queue files.

    ``unsaved_from`` is the first offset that is in no queue file.
    """

    queue: MessageQueue
    min_offset: int
    unsaved_from: int
    saved: list[SavedChunk]


class ConsumeQueues:
    """Consume queues by message queue. The first message of a queue creates it.

    ``load`` reads saved chunks. Without it, chunks stay in memory.
    """

    def __init__(self, load: Callable[[MessageQueue, SavedChunk], pa.RecordBatch] | None = None) -> None:
        self._load = load
        self._queues: dict[MessageQueue, ConsumeQueue] = {}
        self._by_topic: dict[str, list[MessageQueue]] = {}
        self._newest_store_ms = 0
        self._newest_written_ms = 0
        self.last_read_ms = 0
        """The time at which the clock was last found to have been set back; 0 if it never was."""
        # Only without queue files, where chunks have no marks: (log position, time) of each such reading of the clock.
        self._reads: list[tuple[int, int]] = []
        self.applied_until = 0
        """The log position up to which facts were applied."""
        self.marks: list[SegmentMark] = []
        self.unsaved_bytes = 0
        # Whether the newest marked segment has messages.
        self.segment_has_messages = False

    # --- the message store ---------------------------------------------------------------------------------------

    def list_queues(self) -> Iterable[MessageQueue]:
        """Returns the queues that have ever had messages."""
        return self._queues.keys()

    def bounds(self, queue: MessageQueue) -> Bounds:
        """Returns the readable range; ``(0, 0)`` for a queue without messages."""
        consume_queue = self._queues.get(queue)
        return _EMPTY if consume_queue is None else consume_queue.bounds()

    def read(self, queue: MessageQueue, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of ``[from_offset, until_offset)``, which must lie within the bounds, in slices."""
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            return iter(())
        self._change(consume_queue, lambda: consume_queue.seal(until_offset))
        return consume_queue.read(from_offset, until_offset)

    def read_tail(self, queue: MessageQueue, from_offset: int) -> Sequence[StoredMessage]:
        """Returns the messages from ``from_offset`` on if they are not in columns yet; none if one of them is."""
        consume_queue = self._queues.get(queue)
        return () if consume_queue is None else consume_queue.read_tail(from_offset)

    def seal_tails(self) -> None:
        """Turns the tails of some queues into chunks."""
        rows_left = TAIL_ROWS_AT_ONCE
        having_tails = (queue for queue in self._queues.values() if queue.tail_rows)
        for queue in islice(having_tails, TAILS_AT_ONCE):
            rows_left -= queue.tail_rows
            self._change(queue, partial(queue.seal, queue.bounds().max_offset))
            if rows_left <= 0:
                return

    def find_last_store_ms(self, queue: MessageQueue) -> int:
        """Returns the store time of the last message; 0 for a queue without messages."""
        consume_queue = self._queues.get(queue)
        return 0 if consume_queue is None else consume_queue.last_store_ms

    def find_time_range(self, queue: MessageQueue, timestamp_ms: int) -> Bounds:
        """Returns offsets ``[low, high]`` between which the first message stored at or after a time lies."""
        consume_queue = self._queues.get(queue)
        return _EMPTY if consume_queue is None else consume_queue.find_time_range(timestamp_ms)

    def list_spans(self, queue: MessageQueue, from_offset: int, until_offset: int) -> list[Span]:
        """Returns the known sizes of ``[from_offset, until_offset)``, which must lie within the bounds."""
        consume_queue = self._queues.get(queue)
        return [] if consume_queue is None else consume_queue.list_spans(from_offset, until_offset)

    def apply(self, fact: Fact, written: LogRange) -> None:
        """Applies a fact that the log keeps at ``written``: stores, trims or deletes messages, or ignores the fact."""
        self._mark_new_segment(written)
        match fact:
            case RowsStored() | ColumnsStored():
                self._append(fact, written)
            case QueuesTrimmed(min_offsets):
                for queue, min_offset in min_offsets:
                    self._trim(queue, min_offset)
            case ClockRead(time_ms):
                self._read_clock(time_ms)
            case TopicDeleted(name):
                self._delete({name})
            case StagesEnded(stage_ids):
                self._delete({STAGE_PREFIX + stage_id for stage_id in stage_ids})

    def _mark_new_segment(self, written: LogRange) -> None:
        self.applied_until = max(self.applied_until, written.until_position)
        if not self.marks or self.marks[-1].segment < written.segment:
            ends = {queue: consume_queue.bounds().max_offset for queue, consume_queue in self._queues.items()}
            self.marks.append(SegmentMark(written.segment, self._newest_store_ms, self._newest_written_ms, ends))
            self.segment_has_messages = False

    def _append(self, stored: RowsStored | ColumnsStored, written: LogRange) -> None:
        self._newest_store_ms = max(self._newest_store_ms, stored.store_timestamp_ms)
        self._newest_written_ms = max(self._newest_written_ms, stored.store_timestamp_ms)
        self.segment_has_messages = True
        if isinstance(stored, RowsStored):
            self._append_rows(stored, written)
            return
        begin, small_rows = 0, stored.batch.num_rows // SLICES_PER_BATCH_MAX
        for part in stored.parts:
            rows = stored.batch.slice(begin, part.row_count)
            begin += part.row_count
            if part.row_count <= small_rows:
                rows = columns.concat_batches([rows])
            queue = self._find_or_create(part.queue)
            self._change(queue, partial(queue.append_columns, rows, written))

    def _append_rows(self, stored: RowsStored, written: LogRange) -> None:
        queue = self._find_or_create(stored.queue)
        before = queue.unsaved_bytes
        if isinstance(stored, LoggedRows):
            queue.append_logged(stored, written)
        else:
            queue.append_rows(stored.rows, written)
        self.unsaved_bytes += queue.unsaved_bytes - before

    def _trim(self, queue: MessageQueue, min_offset: int) -> None:
        consume_queue = self._queues.get(queue)
        if consume_queue is not None:
            self._change(consume_queue, lambda: consume_queue.trim(min_offset))

    def _delete(self, topics: Set[str]) -> None:
        """Deletes all queues of these topics. A queue that is created again starts at offset 0."""
        for queue in [queue for topic in topics for queue in self._by_topic.pop(topic, ())]:
            self.unsaved_bytes -= self._queues.pop(queue).unsaved_bytes
            for mark in self.marks:
                mark.max_offsets.pop(queue, None)

    def _find_or_create(self, queue: MessageQueue) -> ConsumeQueue:
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            # Without queue files, delayed messages that wait for long would take most of the memory.
            packs = self._load is None and queue.topic in DELAY_TOPICS
            consume_queue = self._add(queue, ConsumeQueue(self._make_loader(queue), packs=packs))
        return consume_queue

    def _add(self, queue: MessageQueue, added: ConsumeQueue) -> ConsumeQueue:
        self._queues[queue] = added
        self._by_topic.setdefault(queue.topic, []).append(queue)
        return added

    def _make_loader(self, queue: MessageQueue) -> Callable[[SavedChunk], pa.RecordBatch]:
        def load(chunk: SavedChunk) -> pa.RecordBatch:
            assert self._load is not None, "only a store with queue files has saved chunks"
            return self._load(queue, chunk)

        return load

    def _change(self, queue: ConsumeQueue, change: Callable[[], None]) -> None:
        """Changes a queue, and counts its unsaved bytes again."""
        before = queue.unsaved_bytes
        change()
        self.unsaved_bytes += queue.unsaved_bytes - before

    # --- ages ----------------------------------------------------------------------------------------------------

    @property
    def newest_written_ms(self) -> int:
        """The latest time at which the last message can have been written. Later than now if the clock was set back."""
        return self._newest_written_ms

    def _read_clock(self, time_ms: int) -> None:
        """Notes that everything stored so far was written no later than ``time_ms``."""
        self.marks = [mark._replace(newest_written_ms=min(mark.newest_written_ms, time_ms)) for mark in self.marks]
        self._newest_written_ms = min(self._newest_written_ms, time_ms)
        self.last_read_ms = time_ms
        if self._load is None:
            self._reads = [read for read in self._reads if read[1] < time_ms]
            if len(self._reads) > 1 and time_ms - self._reads[-2][1] < READS_APART_MS:
                self._reads.pop()
            self._reads.append((self.applied_until, time_ms))

    def trust_store_times(self, now_ms: int) -> None:
        """Treats store times up to ``now_ms`` as the times of writing again, whatever the clock said since.

        The clock was set ahead. If it was wrong when it was read, new messages would look old.
        """
        self.marks = [
            mark._replace(newest_written_ms=mark.newest_store_ms) if mark.newest_store_ms <= now_ms else mark
            for mark in self.marks
        ]
        if self._newest_store_ms <= now_ms:
            self._newest_written_ms = self._newest_store_ms
            self._reads = []

    @property
    def has_reads(self) -> bool:
        """Whether the age of any message does not follow from its store time."""
        return self._newest_written_ms < self._newest_store_ms or any(
            mark.newest_written_ms < mark.newest_store_ms for mark in self.marks
        )

    def _find_written_ms(self, chunk: FreshChunk) -> int:
        """Returns the latest time at which the last message of a chunk in memory can have been written."""
        index = bisect.bisect_left(self._reads, (chunk.written.until_position, 0))
        return min(chunk.last_store_ms, self._reads[index][1]) if index < len(self._reads) else chunk.last_store_ms

    # --- retention -----------------------------------------------------------------------------------------------

    @property
    def newest_store_ms(self) -> int:
        """The newest store time of all messages, deleted ones included."""
        return self._newest_store_ms

    def expire(self, limits: RetentionLimits, now_ms: int) -> list[tuple[MessageQueue, int]]:
        """Returns new min offsets of queues in memory, without chunks that are too old or, oldest first, too many.

        The newest chunk of a queue is not deleted by age, as a log keeps its newest segment.
        """
        for consume_queue in self._queues.values():
            self._change(consume_queue, partial(consume_queue.seal, consume_queue.bounds().max_offset))
        unsaved = (
            (self._find_written_ms(chunk), chunk.first_offset, queue, chunk)
            for queue, held in self._queues.items()
            for chunk in held.list_fresh()
        )
        byte_count, min_offsets = self.unsaved_bytes, dict[MessageQueue, int]()
        for written_ms, _, queue, chunk in sorted(unsaved, key=lambda entry: entry[:2]):
            is_too_much = limits.log_bytes_max is not None and byte_count > limits.log_bytes_max
            if not is_too_much and not limits.is_expired(written_ms, now_ms):
                break
            end = chunk.first_offset + chunk.row_count
            if not is_too_much and end == self.bounds(queue).max_offset:
                continue
            byte_count -= chunk.byte_count
            min_offsets[queue] = end
        return list(min_offsets.items())

    def restore_times(self, times: NewestTimes) -> None:
        """Restores the times of a snapshot, after its messages, which were written by then."""
        self._newest_store_ms, self._newest_written_ms, self.last_read_ms = times

    @property
    def newest_times(self) -> NewestTimes:
        """The times that a snapshot keeps."""
        return NewestTimes(self._newest_store_ms, self._newest_written_ms, self.last_read_ms)

    def find_mark(self, position: int) -> SegmentMark | None:
        """Returns the mark of the first segment at or after ``position``; None while nothing was written there."""
        return next((mark for mark in self.marks if mark.segment >= position), None)

    def find_min_offsets_at(self, position: int) -> list[tuple[MessageQueue, int]]:
        """Returns the new min offsets of the queues that lose messages when the log is cut at ``position``."""
        mark = self.find_mark(position)
        ends = mark.max_offsets.items() if mark is not None else ()
        return [(queue, end) for queue, end in ends if end > self.bounds(queue).min_offset]

    def forget_marks_before(self, position: int) -> None:
        """Removes the marks of segments before ``position``, where the log now begins."""
        self.marks = [mark for mark in self.marks if mark.segment >= position]

    # --- saving --------------------------------------------------------------------------------------------------

    def list_ready(self) -> list[tuple[MessageQueue, FreshChunk]]:
        """Returns the chunks that may be saved, in order for each queue."""
        return [(queue, chunk) for queue, held in self._queues.items() for chunk in held.list_ready()]

    def finalize_down_to(self, byte_count: int) -> None:
        """Makes chunks of the largest queues ready to be saved, until at most ``byte_count`` bytes are not ready."""
        loose = sorted(((queue.loose_bytes, queue) for queue in self._queues.values()), key=lambda pair: -pair[0])
        left = sum(loose_bytes for loose_bytes, _ in loose)
        for loose_bytes, queue in loose:
            if left <= byte_count:
                break
            left -= loose_bytes
            self._change(queue, queue.finalize)

    def install(self, queue: MessageQueue, chunk: FreshChunk, saved: SavedChunk) -> bool:
        """Replaces the rows of a chunk by its location. False when the queue no longer has the chunk."""
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            return False
        before = consume_queue.unsaved_bytes
        is_installed = consume_queue.install(chunk, saved)
        self.unsaved_bytes += consume_queue.unsaved_bytes - before
        return is_installed

    # --- snapshots -----------------------------------------------------------------------------------------------

    def find_unsaved_since(self, position: int) -> int:
        """Returns the log position of the oldest write that is in no queue file; at most ``position``."""
        return min((queue.find_unsaved_since(position) for queue in self._queues.values()), default=position)

    def list_index(self) -> list[QueueIndex]:
        """Returns what a snapshot holds of each queue, besides the messages of :meth:`list_unsaved`."""
        return [
            QueueIndex(queue, held.bounds().min_offset, held.unsaved_from, held.list_saved())
            for queue, held in self._queues.items()
        ]

    def list_unsaved(self) -> list[Fact]:
        """Returns the messages that are in no queue file, as facts."""
        return [fact for queue, held in self._queues.items() for fact in held.list_unsaved(queue)]

    def restore(self, index: Iterable[QueueIndex], marks: Iterable[SegmentMark]) -> None:
        """Fills empty queues from a snapshot's index and marks."""
        for queue, min_offset, unsaved_from, saved in index:
            self._add(queue, ConsumeQueue(self._make_loader(queue), min_offset, unsaved_from, saved))
        self.marks = list(marks)
        self.segment_has_messages = bool(self.marks) and any(
            held.bounds().max_offset > self.marks[-1].max_offsets.get(queue, 0) for queue, held in self._queues.items()
        )
