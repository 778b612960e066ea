"""Rows of a queue that are found in the log again: sent, published, and committed after any calls of any stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, QueuePart, RowsStored, TopicDeleted
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.core.state.stage_facts import Splice, StagesCommitted, StagesEnded, TransactionId
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues.chunks import Location, SavedChunk
from rmqpull_broker.store.queues.repair import LoggedQueues, rebuild_rows
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.written_messages import QUEUES, lower_part_limits, make_call, make_rows

FIRST, SECOND, THIRD = QUEUES
TRANSACTION = TransactionId("query", 1)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        lower_part_limits(patch, 3)
        yield


class LoggedLife:
    """A log beside lists of the rows of each queue, and of the range of the log that each row needs."""

    def __init__(self, segment_bytes: int = 1 << 20) -> None:
        self.log = CommitLog(MemoryFileSystem(), segment_bytes)
        self.log.recover(lambda facts, written: None)
        self.rows: dict[MessageQueue, list[StoredMessage]] = {queue: [] for queue in QUEUES}
        self.written: dict[MessageQueue, list[LogRange]] = {queue: [] for queue in QUEUES}
        self._staged: dict[str, dict[int, tuple[LogRange, list[tuple[MessageQueue, list[bytes]]]]]] = {}
        self._count = 0

    def _write(self, *facts: Fact) -> LogRange:
        (kept,) = self.log.append([facts])
        return kept.written

    def _make_bodies(self, count: int) -> list[bytes]:
        self._count += count
        return [b"body %d" % number for number in range(self._count - count, self._count)]

    def _place(self, queue: MessageQueue, bodies: Sequence[bytes], store_ms: int) -> list[StoredMessage]:
        batch = columns.place_rows(make_rows(bodies), len(self.rows[queue]), store_ms, "host")
        return columns.to_rows([batch])

    def _keep(self, queue: MessageQueue, rows: list[StoredMessage], written: LogRange) -> None:
        self.rows[queue] += rows
        self.written[queue] += [written] * len(rows)

    def send(self, at: int, count: int) -> None:
        rows = self._place(QUEUES[at], self._make_bodies(count), 1_000)
        self._keep(QUEUES[at], rows, self._write(RowsStored(QUEUES[at], tuple(rows))))

    def publish(self, counts: Sequence[int]) -> None:
        rows = {queue: self._place(queue, self._make_bodies(count), 1_000) for queue, count in zip(QUEUES, counts)}  # noqa: B905 (not all queues)
        parts = tuple(QueuePart(queue, own[0].queue_offset, len(own)) for queue, own in rows.items())
        written = self._write(ColumnsStored(parts, columns.from_rows([row for own in rows.values() for row in own])))
        for queue, own in rows.items():
            self._keep(queue, own, written)

    def stage(self, stage_id: str, sequence: int, counts: Sequence[tuple[int, int]]) -> None:
        if sequence not in self._staged.get(stage_id, {}):
            parts = [(QUEUES[at], self._make_bodies(count)) for at, count in counts]
            written = self._write(make_call(stage_id, sequence, parts))
            self._staged.setdefault(stage_id, {})[sequence] = written, parts

    def commit(self, stage_ids: Sequence[str], moves: bool = False) -> None:
        """Commits stages. Rows for the last queue may move to the first one, as if the topic had fewer queues."""
        calls = [self._staged.pop(stage_id, {}) for stage_id in stage_ids]
        in_order = [call[sequence] for call in calls for sequence in sorted(call)]
        splices, kept, begins = (
            list[Splice](),
            list[tuple[MessageQueue, list[StoredMessage]]](),
            dict[MessageQueue, int](),
        )
        for source in QUEUES:
            bodies = [body for _, parts in in_order for queue, own in parts if queue == source for body in own]
            queue = FIRST if moves and source == THIRD else source
            begin = begins.get(queue, len(self.rows[queue]))
            begins[queue] = begin + len(bodies)
            if bodies:
                splices.append(Splice(source, queue, begin, len(bodies), 0, 2_000, "host"))
                kept.append((queue, columns.to_rows([columns.place_rows(make_rows(bodies), begin, 2_000, "host")])))
        commit = self._write(StagesCommitted(TRANSACTION, tuple(stage_ids), None, tuple(splices)))
        begin = min((written.from_position for written, _ in in_order), default=commit.from_position)
        for queue, rows in kept:
            self._keep(queue, rows, LogRange(0, begin, commit.until_position))

    def drop(self, stage_id: str) -> None:
        self._staged.pop(stage_id, None)
        self._write(StagesEnded((stage_id,)))

    def delete(self) -> None:
        self.rows = {queue: [] for queue in QUEUES}
        self.written = {queue: [] for queue in QUEUES}
        self._write(TopicDeleted("orders"))

    def rebuild(self, queue: MessageQueue, begin: int, end: int, min_offset: int = 0) -> list[StoredMessage | None]:
        """Rebuilds a chunk, whose range of the log is just large enough."""
        ranges = self.written[queue][begin:end]
        written = LogRange(0, min(at.from_position for at in ranges), max(at.until_position for at in ranges))
        chunk = SavedChunk(begin, end - begin, 0, 0, written, Location(0, 0, 0, 0), None)
        batch = rebuild_rows(self.log, queue, chunk, min_offset)
        lost = max(min_offset - begin, 0)
        assert batch.slice(0, lost).column("body").null_count == lost
        return [*[None] * lost, *columns.to_rows([batch.slice(lost)])]


STAGES = st.sampled_from("ab")
COUNTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2), st.integers(1, 3)),
    st.tuples(st.just("publish"), st.lists(st.integers(1, 4), min_size=1, max_size=3)),
    st.tuples(st.just("stage"), STAGES, st.integers(0, 3), COUNTS),
    st.tuples(st.just("stage"), STAGES, st.integers(0, 3), COUNTS),
    st.tuples(st.just("commit"), st.lists(STAGES, min_size=1, max_size=2, unique=True), st.booleans()),
    st.tuples(st.just("drop"), STAGES),
    st.tuples(st.just("delete")),
)


@given(st.lists(STEPS, max_size=20), st.data())
def test_rows_of_any_chunk_are_found_in_its_range_of_the_log(steps: list[tuple[Any, ...]], data: st.DataObject) -> None:
    life = LoggedLife(segment_bytes=data.draw(st.sampled_from([64, 3_000, 1 << 20])))
    for name, *arguments in steps:
        getattr(life, name)(*arguments)
    life.commit(["a", "b"])
    for queue, rows in life.rows.items():
        if rows:
            begin, end = sorted(data.draw(st.tuples(*[st.integers(0, len(rows))] * 2)))
            min_offset = data.draw(st.integers(0, max(end - 1, 0)))
            if begin < end:
                lost = max(min_offset - begin, 0)
                expected = [*[None] * lost, *rows[begin + lost : end]]
                assert life.rebuild(queue, begin, end, min_offset) == expected


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0)])
def test_rows_whose_stage_is_partly_deleted_are_found(order: Sequence[int]) -> None:
    """What the log begins with is not the beginning of the run: rows after the last deleted one are still there."""
    life = LoggedLife(segment_bytes=64)
    for sequence in order:
        life.stage("a", sequence, [(0, sequence + 1)])
    life.commit(["a"])
    life.log.remove_before(life.log.segments()[1].base)
    first_left = sum(range(1, order[0] + 2))
    assert life.rebuild(FIRST, 0, 6, first_left) == [*[None] * first_left, *life.rows[FIRST][first_left:]]


def test_missing_rows_are_reported_with_offsets_and_positions() -> None:
    life = LoggedLife()
    life.stage("a", 0, [(0, 3)])
    life.send(0, 2)
    life.commit(["a"])
    written = life.written[FIRST][2]
    chunk = SavedChunk(2, 4, 0, 0, written, Location(0, 0, 0, 0), None)
    with pytest.raises(
        CorruptLog,
        match=r"messages 2 to 5 of queue orders/broker-a/0 are damaged in their queue file and missing from the log "
        rf"between positions {written.from_position} and {written.until_position}",
    ):
        rebuild_rows(life.log, FIRST, chunk, 0)


def test_a_commit_without_its_stages_yields_nothing() -> None:
    splice = Splice(FIRST, FIRST, 0, 3, 0, 1_000, "host")
    assert list(LoggedQueues().apply(StagesCommitted(TRANSACTION, ("a",), None, (splice,)))) == []
    assert list(LoggedQueues().apply(StagesCommitted(TRANSACTION, ()))) == []


def test_rows_of_other_queues_of_a_commit_are_found_without_those_of_this_one() -> None:
    queues = LoggedQueues()
    assert list(queues.apply(make_call("a", 0, [(SECOND, [b"x"])]))) == []
    splices = tuple(Splice(queue, queue, 7, 1, 0, 1_000, "host") for queue in (FIRST, SECOND))
    found = list(queues.apply(StagesCommitted(TRANSACTION, ("a",), None, splices)))
    assert [(queue, offset) for queue, offset, _ in found] == [(SECOND, 7)]
    (row,) = columns.to_rows([found[0][2]])
    assert row == StoredMessage(Message(b"x", "ID of b'x'"), 7, 1_000, "host")
