"""A queue that refers to the log, compared with a list: whatever is appended, trimmed, saved and restored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, StoredMessage
from rmqpull_broker.core.state.facts import ColumnsStored
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.queues import chunks, consume_queue, tail
from rmqpull_broker.store.queues.chunks import (
    RUN_BYTES,
    FreshChunk,
    Location,
    Run,
    RunPart,
    RunParts,
    SavedChunk,
    make_chunk,
)
from rmqpull_broker.store.queues.consume_queue import ConsumeQueue
from tests.harness.written_messages import QUEUES, WrittenMessages, lower_part_limits, make_rows

LARGE = 4


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        lower_part_limits(patch, LARGE)
        patch.setattr(consume_queue, "TAIL_ROWS_MAX", 8)
        patch.setattr(chunks, "CHUNK_ROWS_MAX", 12)
        yield


class QueueLife:
    """A queue with a log and queue files beside the list of all its messages."""

    def __init__(self) -> None:
        self.log = WrittenMessages()
        self.files: dict[Location, pa.RecordBatch] = {}
        self.queue = ConsumeQueue(self._load, read_message=self.log.read)
        self.model: list[StoredMessage] = []
        self.min_offset = 0
        self._time_ms = 0
        self._listed: list[list[FreshChunk | Run]] = []

    def _load(self, chunk: SavedChunk) -> pa.RecordBatch:
        return self.files[chunk.location]

    def _make(self, count: int) -> tuple[list[StoredMessage], LogRange]:
        self._time_ms += 1
        begin = len(self.model)
        rows = make_rows(b"%d" % offset for offset in range(begin, begin + count))
        placed = columns.to_rows([columns.place_rows(rows, begin, self._time_ms, f"host {self._time_ms % 2}")])
        self.model += placed
        return placed, LogRange(0, 10 * self._time_ms, 10 * self._time_ms + 9)

    # --- steps -----------------------------------------------------------------------------------------------------

    def rows(self, count: int) -> None:
        self.queue.append_rows(*self._make(count))

    def columns(self, count: int) -> None:
        rows, written = self._make(count)
        self.queue.append_columns(columns.from_rows(rows), written)

    def run(self, counts: list[int]) -> None:
        """Parts of several messages, before which other queues have rows."""
        self._append_run(counts, *self._make(sum(counts)))

    def neighbours(self, counts: list[int]) -> None:
        """Runs of one commit: queues of the topic that producers no longer see moved here."""
        for count in counts:
            rows, written = self._make(count)
            self._time_ms -= 1
            self._append_run([count], rows, written)
        self._time_ms += 1

    def _append_run(self, counts: Sequence[int], rows: list[StoredMessage], written: LogRange) -> None:
        parts, own = list[RunPart](), iter(rows)
        for number, count in enumerate(counts, 1):
            batch = columns.from_rows([next(own) for _ in range(count)])
            others = make_rows([b"of another queue"] * number)
            message = columns.concat_batches([others, batch.select(columns.UNPLACED_SCHEMA.names)])
            (place,) = self.log.write(message, [message.num_rows])
            parts.append(RunPart(place, number, count, columns.count_bytes(batch)))
        first, size = rows[0], sum(part.size for part in parts)
        begin = first.queue_offset, sum(counts), first.store_timestamp_ms, first.store_host
        run = Run(*begin, written, RunParts(parts), size)
        self.queue.append_run(run)

    def trim(self, percent: int) -> None:
        self.min_offset = max(self.min_offset, len(self.model) * percent // 100)
        self.queue.trim(self.min_offset)

    def finalize(self) -> None:
        self.queue.finalize()

    def list_ready(self) -> None:
        runs = self.queue.list_scattered(1 << 40)
        neighbours: list[list[FreshChunk | Run]] = []
        for run in runs:
            if neighbours and neighbours[-1][-1].first_offset + neighbours[-1][-1].row_count == run.first_offset:
                neighbours[-1].append(run)
            else:
                neighbours.append([run])
        self._listed = neighbours
        self._listed += [[chunk] for chunk in self.queue.list_ready()]

    def save(self, number: int, left: int) -> None:
        """Saves what was listed, which the queue may no longer have, up to ``left`` parts of the last run."""
        if not self._listed:
            return
        group = self._listed.pop(number % len(self._listed))
        pieces, saved = list[FreshChunk](), list[SavedChunk | Run]()
        for chunk in group:
            pieces += [chunk] if isinstance(chunk, FreshChunk) else self._read_run(chunk)
        last = group[-1]
        if isinstance(last, Run) and 0 < left < len(last.parts):
            del pieces[-left:]
        # As a job, but with chunks of any number of pieces.
        step = number % 3 + 1
        for begin in range(0, len(pieces), step):
            merged = reduce(FreshChunk.merge, pieces[begin : begin + step])
            location = Location(len(self.files), 0, 0, 0)
            self.files[location] = merged.batch
            saved.append(merged.saved(location))
        end = saved[-1].first_offset + saved[-1].row_count
        if isinstance(last, Run) and end < last.first_offset + last.row_count:
            saved.append(last.without_before(end))
        own = {id(chunk) for chunk in (*self.queue.list_ready(), *self.queue.list_scattered(1 << 40))}
        assert self.queue.install(group, saved) == all(id(chunk) in own for chunk in group)

    def leave(self, number: int) -> None:
        """A run is not saved, because the log is damaged."""
        if self._listed:
            for chunk in self._listed.pop(number % len(self._listed)):
                if isinstance(chunk, Run):
                    self.queue.leave(chunk)

    def _read_run(self, run: Run) -> Iterator[FreshChunk]:
        offset = run.first_offset
        for part in run.parts:
            yield make_chunk(
                offset,
                columns.place_rows(part.read(self.log.read), offset, run.store_ms, run.store_host),
                run.written,
            )
            offset += part.row_count

    def restore(self) -> None:
        """As a snapshot and a restart do."""
        old, self._listed = self.queue, []
        saved, facts = old.list_saved(), old.list_unsaved(QUEUES[0])
        unsaved_since = old.find_unsaved_since(1 << 40)
        self.queue = ConsumeQueue(
            self._load, old.bounds().min_offset, old.unsaved_from, saved, read_message=self.log.read
        )
        for fact in facts:
            written = LogRange(0, unsaved_since, 1 << 40)
            if isinstance(fact, ColumnsStored):
                self.queue.append_columns(fact.batch, written, fact.parts[0].first_offset)
            else:
                self.queue.append_rows(fact.rows, written)
        assert self.queue.list_saved() == saved
        assert self.queue.last_store_ms == old.last_store_ms

    # --- what must hold --------------------------------------------------------------------------------------------

    def read(self, first: int, last: int) -> None:
        low, high = (max(self.min_offset, len(self.model) * percent // 100) for percent in sorted((first, last)))
        assert columns.to_rows(self.queue.read(low, high)) == self.model[low:high]
        spans = self.queue.list_spans(low, high)
        ends = [span.until_offset for span in spans]
        assert ends == sorted(set(ends))
        assert (not spans and low == high) or ends[-1] == high
        begin = low
        for end, size in spans:
            if size is not None:
                assert size == sum(len(row.message.body) for row in self.model[begin:end])
            begin = end

    def find(self, percent: int) -> None:
        time_ms = self._time_ms * percent // 100
        low, high = self.queue.find_time_range(time_ms)
        left = self.model[self.min_offset :]
        at = next((row.queue_offset for row in left if row.store_timestamp_ms >= time_ms), len(self.model))
        assert self.min_offset <= low <= at <= high <= len(self.model)

    def check(self) -> None:
        queue = self.queue
        assert queue.bounds() == Bounds(self.min_offset, len(self.model))
        assert queue.last_store_ms == (self.model[-1].store_timestamp_ms if len(self.model) > self.min_offset else 0)
        runs = [chunk for chunk in queue.list_saved() if isinstance(chunk, Run)]
        scattered = queue.list_scattered(1 << 40)
        assert queue.scattered_bytes == sum(run.byte_count + RUN_BYTES for run in scattered)
        assert all(run.is_scattered for run in scattered)
        assert all(run.byte_count == sum(part.size for part in run.parts) for run in runs)
        assert all([*run.parts.ends] == [*accumulate(part.row_count for part in run.parts)] for run in runs)
        assert {id(run) for run in scattered} <= {id(run) for run in runs}
        tail_bytes = sum(tail.ROW_BYTES + len(row.message.body) for row in queue._tail.rows)
        assert queue.unsaved_bytes == tail_bytes + sum(chunk.byte_count for chunk in queue.list_fresh())
        assert 0 <= queue.loose_bytes <= queue.unsaved_bytes
        for unsaved in (queue._fresh, queue._scattered):
            offsets = [chunk.first_offset for chunk in unsaved.values()]
            assert offsets == sorted(offsets) == list(unsaved)
        assert queue._final_count <= len(queue._chunks) == len(queue._ends)


COUNTS = st.lists(st.integers(1, LARGE + 1), min_size=1, max_size=5)
PERCENT = st.integers(0, 100)
STEPS = st.one_of(
    st.tuples(st.sampled_from(["rows", "columns"]), st.integers(1, 9)),
    st.tuples(st.sampled_from(["run", "neighbours"]), COUNTS),
    st.tuples(st.sampled_from(["run", "neighbours"]), st.lists(st.integers(1, 2), min_size=1, max_size=5)),
    st.tuples(st.just("trim"), PERCENT),
    st.tuples(st.sampled_from(["finalize", "list_ready", "list_ready", "restore"])),
    st.tuples(st.just("save"), st.integers(0, 9), st.integers(0, 2)),
    st.tuples(st.just("save"), st.integers(0, 9), st.integers(0, 2)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("read"), PERCENT, PERCENT),
    st.tuples(st.just("find"), PERCENT),
)


@given(st.lists(STEPS, max_size=30))
def test_a_queue_with_runs_is_a_list_of_rows(steps: list[tuple[Any, ...]]) -> None:
    life = QueueLife()
    for name, *arguments in [*steps, ("read", 0, 100)]:
        getattr(life, name)(*arguments)
        life.check()
    life.trim(100)
    assert (life.queue.unsaved_bytes, life.queue.scattered_bytes, life.queue.list_saved()) == (0, 0, [])
    assert (life.queue.list_ready(), life.queue.list_scattered(1 << 40)) == ([], [])
    assert life.queue.list_unsaved(QUEUES[0]) == []
