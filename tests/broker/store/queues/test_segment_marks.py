"""What the store knows of the segments of the log, compared with all rows and their segments."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.store.queues.segment_marks import NewestTimes, SegmentMark, SegmentMarks, SplicedSegment
from tests.harness.written_messages import QUEUES

FIRST, SECOND, THIRD = QUEUES
S0, S1, S2, S3 = 0, 100, 200, 300


class Marked:
    """Marks beside lists that have the segment of each row of a queue."""

    def __init__(self) -> None:
        self.marks = SegmentMarks()
        self.segment = 0
        self.rows: dict[MessageQueue, list[int]] = {}
        self.trimmed: dict[MessageQueue, int] = {}
        # Rows that no commit has made readable yet: their queue and segment.
        self.staged: list[tuple[MessageQueue, int]] = []
        self.begin()

    def begin(self) -> None:
        self.segment += 100
        assert self.marks.is_new(self.segment)
        self.marks.begin(self.segment, {queue: len(rows) for queue, rows in self.rows.items()})
        assert not self.marks.is_new(self.segment)

    def store(self, at: int, count: int) -> None:
        self.rows.setdefault(QUEUES[at], []).extend([self.segment] * count)

    def stage(self, at: int, count: int) -> None:
        self.staged += [(QUEUES[at], self.segment)] * count

    def commit(self, is_reversed: bool) -> None:
        """The calls of a stage may have come in another order than that of their sequences."""
        for queue in QUEUES:
            segments = [segment for found, segment in self.staged if found == queue]
            segments = segments[::-1] if is_reversed else segments
            rows = self.rows.setdefault(queue, [])
            ends = {segment: end for end, segment in enumerate(segments, 1)}
            self.marks.add_splice(queue, len(rows), ends, 5)
            rows += segments
        self.staged = []

    def drop(self, at: int) -> None:
        self.rows.pop(QUEUES[at], None)
        self.trimmed.pop(QUEUES[at], None)
        self.marks.drop_queues({QUEUES[at]})

    def forget(self) -> None:
        """The log is cut in the middle. The rows before are trimmed, and staged ones are dropped."""
        position = self.marks.marks[len(self.marks.marks) // 2].segment
        ends = self.marks.find_ends_before(position)

        self.staged = [(queue, segment) for queue, segment in self.staged if segment >= position]
        self.trimmed.update({at: max(end, self.trimmed.get(at, 0)) for at, end in ends.items()})
        self.marks.forget_before(position)
        assert min(self.marks.spliced, default=position) >= position
        assert self.marks.marks[0].segment == position

    def check(self) -> None:
        for mark in self.marks.marks:
            found = self.marks.find_ends_before(mark.segment)
            assert found.keys() <= self.rows.keys()
            for queue, rows in self.rows.items():
                trimmed = self.trimmed.get(queue, 0)
                end = max((at for at, segment in enumerate(rows, 1) if segment < mark.segment), default=0)
                assert max(found.get(queue, 0), trimmed) == max(end, trimmed)


STEPS = st.one_of(
    st.tuples(st.just("begin")),
    st.tuples(st.sampled_from(["store", "stage"]), st.integers(0, 2), st.integers(1, 3)),
    st.tuples(st.just("commit"), st.booleans()),
    st.tuples(st.just("drop"), st.integers(0, 2)),
    st.tuples(st.just("forget")),
)


@given(st.lists(STEPS, max_size=30))
def test_a_cut_deletes_all_rows_up_to_the_last_one_before_it(steps: list[tuple[Any, ...]]) -> None:
    marked = Marked()
    for name, *arguments in steps:
        getattr(marked, name)(*arguments)
        marked.check()


def test_a_splice_ends_where_the_last_rows_of_a_segment_do() -> None:
    marks = SegmentMarks()
    marks.begin(S0, {})
    marks.begin(S1, {FIRST: 2})
    marks.begin(S2, {FIRST: 4, SECOND: 1})
    marks.add_splice(FIRST, 4, {S0: 3, S1: 5}, 7)
    assert marks.find_ends_before(S0) == {}
    assert marks.find_ends_before(S1) == {FIRST: 7}
    assert marks.find_ends_before(S2) == {FIRST: 9, SECOND: 1}
    assert marks.find_ends_before(S3) == {FIRST: 9}  # nothing was written there: only splices are known
    marks.drop_queues({FIRST})
    assert marks.find_ends_before(S2) == {SECOND: 1}


def test_a_segment_is_as_old_as_the_last_commit_of_its_rows() -> None:
    marks = SegmentMarks()
    for segment, store_ms in ((S0, 10), (S1, 20), (S2, 30)):
        marks.begin(segment, {})
        marks.add_messages(store_ms)
    assert [marks.find_newest_written_ms(*ends) for ends in ((S0, S1), (S1, S2), (S2, S3))] == [10, 20, None]
    marks.add_splice(FIRST, 0, {S0: 2}, 50)
    marks.add_splice(SECOND, 0, {S0: 2}, 40)  # the clock was set back
    assert [marks.find_newest_written_ms(*ends) for ends in ((S0, S1), (S1, S2))] == [50, 20]
    marks.add_splice(FIRST, 2, {S1: 1}, 5)
    assert marks.find_newest_written_ms(S1, S2) == 20


def test_a_clock_that_was_wrong_for_a_moment_makes_no_late_commit_old() -> None:
    marks = SegmentMarks()
    for segment in (S0, S1):
        marks.begin(segment, {})
        marks.add_messages(1_000)
    marks.add_splice(FIRST, 0, {S0: 3}, 5_000)
    marks.add_messages(5_000)
    marks.begin(S2, {})
    assert (marks.find_newest_written_ms(S0, S1), marks.has_reads) == (5_000, False)
    marks.read_clock(10)
    assert (marks.find_newest_written_ms(S0, S1), marks.has_reads) == (10, True)
    assert marks.times == NewestTimes(5_000, 10, 10)
    assert not marks.trust_store_times(4_999)
    assert (marks.find_newest_written_ms(S0, S1), marks.has_reads) == (1_000, True)
    assert marks.trust_store_times(5_000)
    assert (marks.find_newest_written_ms(S0, S1), marks.has_reads) == (5_000, False)


def test_a_reading_of_the_clock_concerns_only_what_is_newer() -> None:
    marks = SegmentMarks()
    marks.begin(S0, {})
    marks.begin(S1, {})
    marks.add_splice(FIRST, 0, {S0: 3}, 50)
    marks.read_clock(60)
    assert (marks.find_newest_written_ms(S0, S1), marks.has_reads) == (50, False)
    marks.read_clock(40)
    marks.add_splice(FIRST, 3, {S0: 4}, 45)
    assert (marks.find_newest_written_ms(S0, S1), marks.spliced[S0].newest_store_ms) == (45, 50)


@pytest.mark.parametrize("has_messages", [True, False])
def test_what_a_snapshot_has_is_taken_over_as_a_copy(has_messages: bool) -> None:
    marks, ends = SegmentMarks(), {FIRST: 4}
    given_marks, given_splices = [SegmentMark(S0, 1, 1, {})], {S0: SplicedSegment(2, 2, ends)}
    marks.restore(given_marks, given_splices, has_messages=has_messages)
    assert (marks.marks, marks.spliced, marks.has_messages) == (given_marks, given_splices, has_messages)
    marks.begin(S1, {})
    marks.forget_before(S1)
    assert (len(given_marks), len(given_splices)) == (1, 1)


def test_the_newest_segment_has_messages_once_one_is_stored_in_it() -> None:
    marks = SegmentMarks()
    marks.begin(S0, {})
    assert not marks.has_messages
    marks.add_messages(5)
    assert (marks.has_messages, marks.times) == (True, NewestTimes(5, 5, 0))
    marks.begin(S1, {})
    assert not marks.has_messages
    assert marks.marks[-1] == SegmentMark(S1, 5, 5, {})
