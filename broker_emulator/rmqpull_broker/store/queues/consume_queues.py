"""The consume queues of the broker: the message store that the core reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from itertools import islice, repeat
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, LoggedMessage, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import (
    ClockRead,
    ColumnsStored,
    Fact,
    QueuesTrimmed,
    RowsStored,
    TopicDeleted,
)
from rmqpull_broker.core.state.names import DELAY_TOPICS, STAGE_PREFIX
from rmqpull_broker.core.state.ports import Cut, LogRange, RetentionLimits, Span
from rmqpull_broker.core.state.stage_facts import ColumnsStaged, Splice, StagesCommitted, StagesEnded
from rmqpull_broker.store.log import logged_columns
from rmqpull_broker.store.log.logged_columns import locate_parts
from rmqpull_broker.store.log.rows import LoggedRows
from rmqpull_broker.store.queues.chunks import FreshChunk, Run, SavedChunk, make_run, span
from rmqpull_broker.store.queues.consume_queue import ConsumeQueue, ReadMessage
from rmqpull_broker.store.queues.gathering import choose_scattered
from rmqpull_broker.store.queues.memory_retention import ClockReads, find_memory_cut
from rmqpull_broker.store.queues.segment_marks import SegmentMark, SegmentMarks, SplicedSegment
from rmqpull_broker.store.queues.staged_rows import JoinedStages, StagedIndex, StagedRows

TAILS_AT_ONCE, TAIL_ROWS_AT_ONCE = 50, 2_048
"""The most tails, and the rows, that become chunks in one turn of the event loop."""
SLICES_PER_BATCH_MAX = 16
"""A part of a batch smaller than this fraction (1/16) is copied, because a slice keeps the whole batch in memory."""

_EMPTY = Bounds(0, 0)


class QueueIndex(NamedTuple):
    """A queue as a snapshot describes it: its min offset, and its chunks in queue files and in the log.

    ``unsaved_from`` is the offset after these chunks.
    """

    queue: MessageQueue
    min_offset: int
    unsaved_from: int
    saved: list[SavedChunk | Run]


class ConsumeQueues:
    """Consume queues by message queue. The first message of a queue creates it.

    ``load`` reads saved chunks, ``read_message`` messages in the log. Without them, all rows stay in memory.
    """

    def __init__(
        self,
        load: Callable[[MessageQueue, SavedChunk], pa.RecordBatch] | None = None,
        read_message: ReadMessage | None = None,
        cache_message: Callable[[LoggedMessage, pa.RecordBatch], None] = lambda message, rows: None,
    ) -> None:
        self._load = load
        self._read_message = read_message
        self._cache_message = cache_message
        self._queues: dict[MessageQueue, ConsumeQueue] = {}
        self._by_topic: dict[str, list[MessageQueue]] = {}
        self.segments = SegmentMarks()
        self.staged = StagedRows()
        # Only without queue files, where chunks have no marks.
        self._reads = ClockReads()
        self.applied_until = 0
        """The log position up to which facts were applied."""
        self._unsaved_bytes = 0
        self.scattered_bytes = 0
        """See :attr:`ConsumeQueue.scattered_bytes`."""

    @property
    def unsaved_bytes(self) -> int:
        """The memory of rows that are not saved."""
        return self._unsaved_bytes + self.staged.byte_count

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

    def join_stages(self, stage_ids: Sequence[str]) -> Iterator[None]:
        """Prepares the commit of stages in steps."""
        yield from self.staged.join(stage_ids)
        for queue in self.staged.list_queues(stage_ids):
            held = self._queues.get(queue)
            if held is not None and held.tail_rows:
                self._change(held, partial(held.seal, held.bounds().max_offset))
                yield

    def apply(self, fact: Fact, written: LogRange) -> None:
        """Applies a fact that the log keeps at ``written``: stores, trims or deletes messages, or ignores the fact."""
        self._mark_new_segment(written)
        match fact:
            case RowsStored():
                self.segments.add_messages(fact.store_timestamp_ms)
                self._append_rows(fact, written)
            case ColumnsStored():
                self.segments.add_messages(fact.store_timestamp_ms)
                self._append_columns(fact, written)
            case ColumnsStaged(written_ms=written_ms):
                self.segments.add_messages(written_ms)
                self.staged.add(fact, written)
                self._cache(fact.messages, fact.batch)
            case StagesCommitted(_, stage_ids, _, splices):
                self._splice(self.staged.take(stage_ids), splices, written)
            case QueuesTrimmed(min_offsets):
                for queue, min_offset in min_offsets:
                    self._trim(queue, min_offset)
            case ClockRead(time_ms):
                self._read_clock(time_ms)
            case TopicDeleted(name):
                self._delete({name})
            case StagesEnded(stage_ids):
                self.staged.drop(stage_ids)
                self._delete({STAGE_PREFIX + stage_id for stage_id in stage_ids})

    def _mark_new_segment(self, written: LogRange) -> None:
        self.applied_until = max(self.applied_until, written.until_position)
        if self.segments.is_new(written.segment):
            ends = {queue: consume_queue.bounds().max_offset for queue, consume_queue in self._queues.items()}
            self.segments.begin(written.segment, ends)

    def _append_columns(self, stored: ColumnsStored, written: LogRange) -> None:
        self._cache(stored.messages, stored.batch)
        begin, small_rows = 0, stored.batch.num_rows // SLICES_PER_BATCH_MAX
        counts = [part.row_count for part in stored.parts]
        places = locate_parts(counts, stored.messages) if stored.messages else repeat(None)
        for part, place in zip(stored.parts, places, strict=False):
            rows = stored.batch.slice(begin, part.row_count)
            begin += part.row_count
            queue = self._find_or_create(part.queue)
            if place is not None and part.row_count >= logged_columns.RUN_ROWS_MIN:
                self._change(queue, partial(queue.append_run, make_run(part.first_offset, place[0], rows, written)))
                continue
            if part.row_count <= small_rows:
                rows = columns.concat_batches([rows])
            self._change(queue, partial(queue.append_columns, rows, written, part.first_offset))

    def _cache(self, messages: Sequence[LoggedMessage], rows: pa.RecordBatch) -> None:
        """Adds the rows of messages, which are in memory, to the cache of readers."""
        begin = 0
        for message in messages:
            self._cache_message(message, rows.slice(begin, message.row_count))
            begin += message.row_count

    def _splice(self, joined: JoinedStages | None, splices: Sequence[Splice], written: LogRange) -> None:
        """Makes staged rows readable where they are. Takes some time for each queue, but none for each row."""
        for source, queue, first_offset, row_count, _, store_ms, host in splices:
            assert joined is not None, "a commit with rows has stages"
            rows = joined.runs[source]
            assert rows.row_count == row_count, "a commit has the rows of its stages"
            consume_queue = self._find_or_create(queue)
            run = Run(
                first_offset,
                row_count,
                store_ms,
                host,
                span(joined.written, written),
                rows.parts,
                rows.byte_count,
            )
            self._change(consume_queue, partial(self._append_run, consume_queue, run))
            self.segments.add_messages(store_ms)
            if self._load is not None:
                self.segments.add_splice(queue, first_offset, rows.segment_ends, store_ms)

    def _append_run(self, queue: ConsumeQueue, run: Run) -> None:
        """Without a log, few rows are merged with those before them: nothing else will do it."""
        if self._load is not None or run.row_count >= logged_columns.PART_ROWS_MIN:
            queue.append_run(run)
            return
        rows = columns.concat_batches([part.read(None) for part in run.parts])
        queue.append_columns(columns.place_rows(rows, run.first_offset, run.store_ms, run.store_host), run.written)

    def _append_rows(self, stored: RowsStored, written: LogRange) -> None:
        queue = self._find_or_create(stored.queue)
        before = queue.unsaved_bytes
        if isinstance(stored, LoggedRows):
            queue.append_logged(stored, written)
        else:
            queue.append_rows(stored.rows, written)
        self._unsaved_bytes += queue.unsaved_bytes - before

    def _trim(self, queue: MessageQueue, min_offset: int) -> None:
        consume_queue = self._queues.get(queue)
        if consume_queue is not None:
            self._change(consume_queue, lambda: consume_queue.trim(min_offset))

    def _delete(self, topics: Set[str]) -> None:
        """Deletes all queues of these topics. A queue that is created again starts at offset 0."""
        queues = {queue for topic in topics for queue in self._by_topic.pop(topic, ())}
        self.segments.drop_queues(queues)
        for queue in queues:
            removed = self._queues.pop(queue)
            self._unsaved_bytes -= removed.unsaved_bytes
            self.scattered_bytes -= removed.scattered_bytes

    def _find_or_create(self, queue: MessageQueue) -> ConsumeQueue:
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            # Without queue files, delayed messages that wait for long would take most of the memory.
            packs = self._load is None and queue.topic in DELAY_TOPICS
            consume_queue = self._add(
                queue, ConsumeQueue(self._make_loader(queue), read_message=self._read_message, packs=packs)
            )
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
        """Changes a queue, and counts its bytes again."""
        before, scattered = queue.unsaved_bytes, queue.scattered_bytes
        change()
        self._unsaved_bytes += queue.unsaved_bytes - before
        self.scattered_bytes += queue.scattered_bytes - scattered

    # --- ages ----------------------------------------------------------------------------------------------------

    @property
    def newest_written_ms(self) -> int:
        """The latest time at which the last message can have been written. Later than now if the clock was set back."""
        return self.segments.times.written_ms

    @property
    def last_read_ms(self) -> int:
        """The time at which the clock was last found to have been set back; 0 if it never was."""
        return self.segments.times.last_read_ms

    @property
    def has_reads(self) -> bool:
        """Whether the age of any message does not follow from its store time."""
        return self.segments.has_reads

    def _read_clock(self, time_ms: int) -> None:
        """Notes that everything stored so far was written no later than ``time_ms``."""
        self.segments.read_clock(time_ms)
        if self._load is None:
            self._reads.add(self.applied_until, time_ms)

    def trust_store_times(self, now_ms: int) -> None:
        """Treats store times up to ``now_ms`` as the times of writing again, because the clock was set ahead."""
        if self.segments.trust_store_times(now_ms):
            self._reads = ClockReads()

    # --- retention -----------------------------------------------------------------------------------------------

    def expire(self, limits: RetentionLimits, now_ms: int) -> Cut | None:
        """Decides which rows in memory may be deleted; None when none may. Makes columns of all tails."""
        for consume_queue in self._queues.values():
            self._change(consume_queue, partial(consume_queue.seal, consume_queue.bounds().max_offset))
        held = ((queue, rows) for queue, consume_queue in self._queues.items() for rows in consume_queue.list_held())
        return find_memory_cut(held, self.staged.list_held(), self.unsaved_bytes, self._reads, limits, now_ms)

    def find_min_offsets_at(self, position: int) -> list[tuple[MessageQueue, int]]:
        """Returns the new min offsets of the queues that lose messages when the log is cut at ``position``."""
        ends = self.segments.find_ends_before(position).items()
        return [(queue, end) for queue, end in ends if end > self.bounds(queue).min_offset]

    # --- saving --------------------------------------------------------------------------------------------------

    def list_ready(self) -> list[tuple[MessageQueue, FreshChunk]]:
        """Returns the chunks in memory that may be saved, in order for each queue."""
        return [(queue, chunk) for queue, held in self._queues.items() for chunk in held.list_ready()]

    def list_scattered(self, count: int) -> list[tuple[MessageQueue, Run]]:
        """Returns the oldest scattered runs, about so many, in order for each queue."""
        return choose_scattered(self._queues.items(), count)

    def finalize_down_to(self, byte_count: int) -> None:
        """Makes chunks of the largest queues ready to be saved, until at most ``byte_count`` bytes are not ready."""
        loose = sorted(((queue.loose_bytes, queue) for queue in self._queues.values()), key=lambda pair: -pair[0])
        left = sum(loose_bytes for loose_bytes, _ in loose)
        for loose_bytes, queue in loose:
            if left <= byte_count:
                break
            left -= loose_bytes
            self._change(queue, queue.finalize)

    def install(
        self, queue: MessageQueue, chunks: Sequence[FreshChunk | Run], saved: Sequence[SavedChunk | Run]
    ) -> bool:
        """Replaces the rows of chunks by their locations. False when the queue no longer has them."""
        consume_queue = self._queues.get(queue)
        if consume_queue is None:
            return False
        before, scattered = consume_queue.unsaved_bytes, consume_queue.scattered_bytes
        is_installed = consume_queue.install(chunks, saved)
        self._unsaved_bytes += consume_queue.unsaved_bytes - before
        self.scattered_bytes += consume_queue.scattered_bytes - scattered
        return is_installed

    def leave(self, queue: MessageQueue, run: Run) -> None:
        """Saves a run no more, because the log does not have it."""
        if (consume_queue := self._queues.get(queue)) is not None:
            self._change(consume_queue, partial(consume_queue.leave, run))

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

    def restore(
        self,
        index: Iterable[QueueIndex],
        marks: Iterable[SegmentMark],
        spliced: Mapping[int, SplicedSegment],
        staged: Iterable[StagedIndex],
    ) -> None:
        """Fills empty queues from what a snapshot holds of queues, segments and open stages."""
        for queue, min_offset, unsaved_from, saved in index:
            added = ConsumeQueue(
                self._make_loader(queue), min_offset, unsaved_from, saved, read_message=self._read_message
            )
            self._add(queue, added)
            self.scattered_bytes += added.scattered_bytes
        found = list(marks)
        has_messages = bool(found) and any(
            held.bounds().max_offset > found[-1].max_offsets.get(queue, 0) for queue, held in self._queues.items()
        )
        self.segments.restore(found, spliced, has_messages=has_messages)
        self.staged.restore(staged)
