"""Staged rows without a log: what retention deletes, in which order, and which limit it names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import ClockRead, Fact, QueuesTrimmed, RowsStored
from rmqpull_broker.core.state.ports import Cut, LogRange, RetentionLimits
from rmqpull_broker.core.state.stage_facts import Splice, StagesCommitted, StagesEnded, TransactionId
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.written_messages import QUEUES, lower_part_limits, make_call

FIRST, SECOND, _ = QUEUES
TRANSACTION = TransactionId("query", 1)


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        lower_part_limits(patch, 3)
        yield


class MemoryLife:
    """Queues in memory. Each step is a millisecond later."""

    def __init__(self) -> None:
        self.queues = ConsumeQueues()
        self.now_ms = self._written = 0
        self.staged: dict[str, dict[MessageQueue, int]] = {}

    def apply(self, fact: Fact) -> None:
        self.queues.apply(fact, LogRange(0, self._written, self._written + 1))
        self._written += 1

    def send(self, at: int, count: int) -> None:
        self.now_ms += 1
        begin = self.queues.bounds(QUEUES[at]).max_offset
        rows = [StoredMessage(Message(b"x", "ID"), begin + n, self.now_ms, "host") for n in range(count)]
        self.apply(RowsStored(QUEUES[at], tuple(rows)))

    def stage(self, stage_id: str, counts: Sequence[tuple[int, int]]) -> None:
        self.now_ms += 1
        own = self.staged.setdefault(stage_id, {})
        parts = [(QUEUES[at], [b"%d" % n for n in range(count)]) for at, count in counts]
        self.apply(make_call(stage_id, len(self._list_calls(stage_id)), parts, self.now_ms))
        for queue, bodies in parts:
            own[queue] = own.get(queue, 0) + len(bodies)

    def _list_calls(self, stage_id: str) -> range:
        entries = [entry for entry in self.queues.staged.list_index() if entry.stage_id == stage_id]
        return range(entries[0].next_sequence if entries else 0)

    def commit(self, stage_id: str) -> None:
        self.now_ms += 1
        splices = [
            Splice(queue, queue, self.queues.bounds(queue).max_offset, count, 0, self.now_ms, "host")
            for queue, count in self.staged.pop(stage_id, {}).items()
        ]
        self.apply(StagesCommitted(TRANSACTION, (stage_id,), None, tuple(splices)))

    def take(self, cut: Cut) -> None:
        """Deletes what a cut names."""
        for stage_id in cut.stage_ids:
            del self.staged[stage_id]
        self.apply(StagesEnded(tuple(cut.stage_ids), cut.limit))
        self.apply(QueuesTrimmed(tuple(cut.min_offsets)))


@pytest.fixture
def life() -> MemoryLife:
    return MemoryLife()


def test_open_stages_go_by_the_age_of_their_last_calls(life: MemoryLife) -> None:
    for stage_id in ("b", "a", "c", "a"):
        life.stage(stage_id, [(0, 1)])
    assert life.queues.expire(RetentionLimits(10), 11) is None
    assert life.queues.expire(RetentionLimits(10), 12) == Cut(0, [], ["b"], "fileReservedTime")
    assert life.queues.expire(RetentionLimits(10), 14) == Cut(0, [], ["b", "c"], "fileReservedTime")
    assert life.queues.expire(RetentionLimits(10), 15) == Cut(0, [], ["b", "c", "a"], "fileReservedTime")


def test_open_stages_and_rows_go_by_size_oldest_first(life: MemoryLife) -> None:
    life.stage("a", [(0, 5)])
    life.send(0, 2)
    life.stage("b", [(1, 5)])
    life.send(1, 2)
    sizes = [rows.byte_count for _, rows in life.queues.staged.list_held()]
    assert life.queues.expire(RetentionLimits(1 << 40, life.queues.unsaved_bytes), 9) is None
    size = life.queues.unsaved_bytes
    for expected in (
        Cut(0, [], ["a"], "retentionBytes"),
        Cut(0, [(FIRST, 2)], ["a"], "retentionBytes"),
        Cut(0, [(FIRST, 2)], ["a", "b"], "retentionBytes"),
        Cut(0, [(FIRST, 2), (SECOND, 2)], ["a", "b"], "retentionBytes"),
    ):
        assert life.queues.expire(RetentionLimits(1 << 40, size - 1), 9) == expected
        is_stage = expected.min_offsets == [] or len(expected.min_offsets) + len(expected.stage_ids) == 3
        rows = next(iter(life.queues._queues.values())).unsaved_bytes
        size -= sizes.pop(0) if is_stage else rows
    assert size == 0
    assert life.queues.expire(RetentionLimits(1 << 40, 0), 9) == Cut(
        0, [(FIRST, 2), (SECOND, 2)], ["a", "b"], "retentionBytes"
    )


def test_what_is_too_much_and_too_old_is_named_after_the_limit_of_its_oldest_part(life: MemoryLife) -> None:
    life.stage("a", [(0, 9)])
    life.stage("b", [(0, 1)])
    size = life.queues.unsaved_bytes
    both = life.queues.expire(RetentionLimits(0, size - 1), 50)
    assert both == Cut(0, [], ["a", "b"], "retentionBytes")
    assert life.queues.expire(RetentionLimits(0, size), 50) == Cut(0, [], ["a", "b"], "fileReservedTime")
    assert life.queues.expire(RetentionLimits(49, size - 1), 50) == Cut(0, [], ["a"], "retentionBytes")


def test_committed_rows_are_as_old_as_their_commit(life: MemoryLife) -> None:
    life.stage("a", [(0, 4), (0, 3)])
    life.now_ms = 100
    life.commit("a")
    life.send(0, 1)
    assert life.queues.expire(RetentionLimits(10), 111) is None
    assert life.queues.expire(RetentionLimits(10), 112) == Cut(0, [(FIRST, 7)], [], "fileReservedTime")
    assert life.queues.expire(RetentionLimits(10), 999) == Cut(0, [(FIRST, 7)], [], "fileReservedTime")


def test_parts_of_a_run_go_one_by_one(life: MemoryLife) -> None:
    life.stage("a", [(0, 4), (0, 3)])
    life.stage("a", [(0, 5)])
    life.commit("a")
    size = life.queues.unsaved_bytes
    for end in (4, 7, 12):
        cut = life.queues.expire(RetentionLimits(1 << 40, life.queues.unsaved_bytes - 1), 9)
        assert cut == Cut(0, [(FIRST, end)], [], "retentionBytes")
        life.take(cut)
        assert life.queues.unsaved_bytes < size
        size = life.queues.unsaved_bytes
    assert size == 0


def test_the_limit_of_an_age_is_named_though_the_newest_rows_of_a_queue_stay(life: MemoryLife) -> None:
    life.send(0, 1)
    life.stage("a", [(0, 1)])
    assert life.queues.expire(RetentionLimits(0), 50) == Cut(0, [], ["a"], "fileReservedTime")


STAGES = st.sampled_from("abc")
COUNTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), min_size=1, max_size=3)
STEPS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 2), st.integers(1, 4)),
    st.tuples(st.just("stage"), STAGES, COUNTS),
    st.tuples(st.just("stage"), STAGES, COUNTS),
    st.tuples(st.just("commit"), STAGES),
    st.tuples(st.just("expire"), st.integers(0, 110), st.integers(0, 20)),
)


@given(st.lists(STEPS, max_size=25))
def test_a_pass_of_retention_leaves_nothing_that_exceeds_a_limit(steps: list[tuple[Any, ...]]) -> None:
    life = MemoryLife()
    queues = life.queues
    for name, *arguments in steps:
        if name != "expire":
            getattr(life, name)(*arguments)
            continue
        percent, reserved_ms = arguments
        queues.seal_tails()  # as retention does, which changes the size
        limits = RetentionLimits(reserved_ms, queues.unsaved_bytes * percent // 100)
        cut = queues.expire(limits, life.now_ms)
        if cut is not None:
            assert cut.limit == ("retentionBytes" if percent < 100 else "fileReservedTime")
            life.take(cut)
        assert queues.unsaved_bytes <= (limits.log_bytes_max or 0)
        ages = [rows.last_store_ms for _, rows in queues.staged.list_held()]
        assert not any(limits.is_expired(written_ms, life.now_ms) for written_ms in ages)
        assert queues.expire(limits, life.now_ms) is None
    assert queues.unsaved_bytes == queues.staged.byte_count + sum(at.unsaved_bytes for at in queues._queues.values())
    for queue in queues.list_queues():
        rows = columns.to_rows(queues.read(queue, *queues.bounds(queue)))
        assert [row.queue_offset for row in rows] == list(range(*queues.bounds(queue)))
    for stage_id in list(life.staged):
        life.commit(stage_id)
    life.apply(QueuesTrimmed(tuple((queue, queues.bounds(queue).max_offset) for queue in queues.list_queues())))
    assert (queues.unsaved_bytes, queues.scattered_bytes) == (0, 0)


def test_a_stage_that_was_written_while_the_clock_was_ahead_is_not_kept_for_ever(life: MemoryLife) -> None:
    life.now_ms = 1_000_000
    life.stage("a", [(0, 1)])
    life.now_ms = 10
    life.apply(ClockRead(10))
    life.send(0, 1)
    life.stage("b", [(0, 1)])
    assert life.queues.expire(RetentionLimits(100), 110) is None
    assert life.queues.expire(RetentionLimits(100), 111) == Cut(0, [], ["a"], "fileReservedTime")
    life.queues.trust_store_times(2_000_000)
    assert life.queues.expire(RetentionLimits(100), 111) is None
