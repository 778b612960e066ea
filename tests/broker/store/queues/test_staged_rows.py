"""Rows that wait for a commit, compared with lists: whatever the order of the calls, and however they are joined."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.ports import NOT_LOGGED, LogRange
from rmqpull_broker.store.queues import staged_rows
from rmqpull_broker.store.queues.staged_rows import JoinedStages, StagedRows, StagedRun
from tests.harness.written_messages import QUEUES, WRITE_BYTES, WrittenMessages, lower_part_limits, make_call

FIRST, SECOND, _ = QUEUES


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        lower_part_limits(patch, 4)
        patch.setattr(staged_rows, "CHUNK_ROWS_MAX", 6)
        yield


Bodies = dict[MessageQueue, list[bytes]]


def read_bodies(run: StagedRun, log: WrittenMessages) -> list[bytes]:
    return [body for part in run.parts for body in part.read(log.read).column("body").to_pylist()]


class Staging:
    """Staged rows beside a model of lists: the target queues and bodies of each call, by stage and sequence."""

    def __init__(self, *, has_log: bool) -> None:
        self.log = WrittenMessages() if has_log else None
        self.rows = StagedRows()
        self.model: dict[str, dict[int, list[tuple[MessageQueue, list[bytes]]]]] = {}
        self._count = 0
        self._join: Iterator[None] = iter(())

    def add(self, stage_id: str, sequence: int, counts: list[tuple[int, int]]) -> None:
        if sequence in self.model.get(stage_id, {}):
            return
        parts = []
        for at, count in counts:
            parts.append((QUEUES[at], [b"body %d" % number for number in range(self._count, self._count + count)]))
            self._count += count
        call, written = make_call(stage_id, sequence, parts, written_ms=self._count), NOT_LOGGED
        if self.log is not None:
            messages = self.log.write(call.batch, [count for _, count in counts])
            call = dataclasses.replace(call, messages=messages)
            written = LogRange(messages[0].segment, messages[0].position - 9, messages[0].position + WRITE_BYTES - 9)
        self.rows.add(call, written)
        self.model.setdefault(stage_id, {})[sequence] = parts

    def join(self, stage_ids: list[str]) -> None:
        self._join = self.rows.join(stage_ids)

    def advance(self, steps: int) -> None:
        for _ in range(steps):
            next(self._join, None)

    def take(self, stage_ids: list[str]) -> None:
        expected, calls = Bodies(), list[tuple[str, int]]()
        for stage_id in stage_ids:
            for sequence, parts in sorted(self.model.pop(stage_id, {}).items()):
                calls.append((stage_id, sequence))
                for queue, bodies in parts:
                    expected.setdefault(queue, []).extend(bodies)
        taken = self.rows.take(stage_ids)
        assert (taken is None) == (not calls)
        if taken is not None:
            self._check_taken(taken, expected)
        assert self.rows.take(stage_ids) is None

    def _check_taken(self, taken: JoinedStages, expected: Bodies) -> None:
        log = self.log or WrittenMessages()
        assert {queue: read_bodies(run, log) for queue, run in taken.runs.items()} == expected
        for queue, run in taken.runs.items():
            assert run.row_count == len(expected[queue])
            assert run.byte_count == sum(map(len, expected[queue]))
            assert list(run.parts.ends) == list(accumulate(part.row_count for part in run.parts))
            ends = {part.segment: end for part, end in zip(run.parts, run.parts.ends, strict=True)}
            assert (run.segment_ends, run.is_in_memory) == (ends, self.log is None)
        if self.log is not None:
            places = [part.message for run in taken.runs.values() for part in run.parts]
            assert all(
                taken.written.segment <= place.segment
                and taken.written.from_position <= place.position < taken.written.until_position
                for place in places
            )

    def drop(self, stage_ids: list[str]) -> None:
        self.rows.drop(stage_ids)
        for stage_id in stage_ids:
            self.model.pop(stage_id, None)

    def restore(self) -> None:
        """As a restart from a snapshot does."""
        if self.log is not None:
            restored = StagedRows()
            restored.restore(self.rows.list_index())
            assert restored.list_index() == self.rows.list_index()
            self.rows, self._join = restored, iter(())

    def check(self) -> None:
        """What is in memory is counted, and stages are found by their oldest segments."""
        entries = self.rows.list_index()
        assert {entry.stage_id for entry in entries} == self.model.keys()
        parts = {
            entry.stage_id: [part for _, part in (*entry.parts, *(p for held in entry.held.values() for p in held))]
            for entry in entries
        }
        if self.log is not None:
            assert self.rows.byte_count == 0
            for segment in (0, 3 * WRITE_BYTES, 6 * WRITE_BYTES, 1 << 40):
                found = [at for at, own in parts.items() if any(part.segment < segment for part in own)]
                assert self.rows.find_before(segment) == found
        else:
            batches = {id(part.message): part.message for own in parts.values() for part in own}
            assert self.rows.byte_count == sum(
                batch.nbytes for batch in batches.values() if isinstance(batch, pa.RecordBatch)
            )
        held = dict(self.rows.list_held())
        assert list(held) == sorted(self.model)
        assert sum(rows.byte_count for rows in held.values()) == self.rows.byte_count
        assert {entry.stage_id: entry.written_ms for entry in entries} == {
            stage_id: rows.last_store_ms for stage_id, rows in held.items()
        }


STAGES = st.sampled_from("abc")
STAGE_LISTS = st.lists(STAGES, min_size=1, max_size=3, unique=True)
COUNTS = st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5)), min_size=1, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("add"), STAGES, st.integers(0, 4), COUNTS),
    st.tuples(st.just("add"), STAGES, st.integers(0, 1), COUNTS),
    st.tuples(st.just("join"), STAGE_LISTS),
    st.tuples(st.just("advance"), st.integers(1, 20)),
    st.tuples(st.just("take"), STAGE_LISTS),
    st.tuples(st.just("drop"), STAGE_LISTS),
    st.tuples(st.just("restore")),
)


@pytest.mark.parametrize("has_log", [True, False])
@given(steps=st.lists(STEPS, max_size=25))
def test_staged_rows_are_lists(has_log: bool, steps: list[tuple[Any, ...]]) -> None:
    staging = Staging(has_log=has_log)
    for name, *arguments in steps:
        getattr(staging, name)(*arguments)
        staging.check()
    staging.take(sorted(staging.model))
    assert staging.rows.byte_count == 0


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize("steps", range(4))
def test_a_stage_that_begins_anew_has_none_of_its_earlier_rows(has_log: bool, steps: int) -> None:
    """Even if a commit was being prepared, and the stage has as many calls as before."""
    staging = Staging(has_log=has_log)
    staging.add("a", 0, [(0, 2), (1, 2)])
    staging.join(["a"])
    staging.advance(steps)
    staging.drop(["a"])
    staging.add("a", 0, [(0, 2), (1, 2)])
    staging.advance(9)
    staging.take(["a"])


@pytest.mark.parametrize("sequence", [1, 2])
def test_a_call_that_comes_after_the_join_is_taken_too(sequence: int) -> None:
    staging = Staging(has_log=True)
    staging.add("a", 0, [(0, 2)])
    staging.join(["a"])
    staging.advance(9)
    staging.add("a", sequence, [(0, 1), (1, 1)])
    staging.take(["a"])


def test_a_join_in_memory_merges_small_parts() -> None:
    staging = Staging(has_log=False)
    for sequence in range(9):
        staging.add("a", sequence, [(0, 1), (1, 5)])
    assert len(list(staging.rows.join(["a"]))) == 2 + 2  # a step for each queue, and for each merged part
    taken = staging.rows.take(["a"])
    assert taken is not None
    assert [[part.row_count for part in run.parts] for run in taken.runs.values()] == [[6, 3], [5] * 9]
    assert read_bodies(taken.runs[FIRST], WrittenMessages()) == [b"body %d" % (6 * number) for number in range(9)]


def test_parts_in_the_log_are_not_merged() -> None:
    staging = Staging(has_log=True)
    for sequence in range(9):
        staging.add("a", sequence, [(0, 1)])
    list(staging.rows.join(["a"]))
    taken = staging.rows.take(["a"])
    assert taken is not None
    assert [part.row_count for part in taken.runs[FIRST].parts] == [1] * 9


def test_target_queues_of_stages_are_listed() -> None:
    staging = Staging(has_log=True)
    staging.add("a", 0, [(0, 1)])
    staging.add("b", 0, [(0, 1), (1, 1)])
    assert staging.rows.list_queues(["a", "none"]) == {FIRST}
    assert staging.rows.list_queues(["a", "b"]) == {FIRST, SECOND}


def test_unknown_stages_have_no_rows() -> None:
    rows = StagedRows()
    rows.drop(["a"])
    assert list(rows.join(["a"])) == []
    assert rows.take(["a"]) is None
    assert rows.take([]) is None
    assert (rows.find_before(1 << 60), rows.list_index(), rows.list_held()) == ([], [], [])
