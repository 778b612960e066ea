"""Which queue a message goes to (rules 5.11)."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.sending import queue_selection
from rmqpull_broker.core.sending.queue_selection import (
    QueueSelector,
    consistent_hash,
    hash_like_java,
    select_by_message_group,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("order-1", -1_207_111_310),
        ("été", 227_742),
        ("😀", 1_772_899),
        ("polygenelubricants", -(1 << 31)),
        ("Aa", 2_112),
        ("BB", 2_112),
    ],
)
def test_java_hash_is_that_of_java(text: str, value: int) -> None:
    assert hash_like_java(text) == value


BUCKETS = (1, 2, 3, 4, 8, 16, 100, 1024)


@pytest.mark.parametrize(
    ("value", "chosen"),
    [
        (0, (0, 0, 0, 0, 0, 0, 0, 0)),
        (1, (0, 0, 0, 0, 6, 6, 55, 549)),
        (-1, (0, 1, 2, 2, 7, 10, 92, 313)),
        (99_162_322, (0, 0, 0, 3, 4, 8, 65, 577)),
        (-1_207_111_310, (0, 0, 0, 3, 3, 3, 3, 489)),
        (-1_207_111_309, (0, 0, 2, 2, 2, 11, 46, 184)),
        (-147_170_163, (0, 1, 1, 1, 7, 7, 46, 815)),
        (-(1 << 31), (0, 1, 2, 2, 2, 2, 58, 185)),
        ((1 << 31) - 1, (0, 0, 0, 0, 0, 9, 56, 231)),
        ((1 << 63) - 1, (0, 0, 2, 2, 7, 8, 97, 972)),
        # The two values of a Java int whose first draw overflows Guava's.
        (975_451_704, (0, 0, 0, 0, 0, 0, 0, 0)),
        (1_950_903_408, (0, 0, 0, 0, 0, 0, 0, 0)),
    ],
)
def test_consistent_hash_is_that_of_guava(value: int, chosen: tuple[int, ...]) -> None:
    """The table was printed by ``Hashing.consistentHash(long, int)`` of Guava 32.0.1-jre on Java 17."""
    assert tuple(consistent_hash(value, buckets) for buckets in BUCKETS) == chosen


def test_consistent_hash_agrees_with_guava_on_390_000_more() -> None:
    """The sum was printed by the same loop in Java, with Guava 32.0.1-jre."""
    total = 0
    for value in range(-5_000, 5_000):
        for buckets in range(1, 40):
            total = (total * 31 + consistent_hash(value * 429_497, buckets)) % 1_000_000_007
    assert total == 379_734_029


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(1, 1_023))
def test_one_more_queue_moves_a_group_only_to_the_new_queue(value: int, buckets: int) -> None:
    assert consistent_hash(value, buckets + 1) in (consistent_hash(value, buckets), buckets)


@given(st.lists(st.sampled_from(["hello", "order-1", "order-2", "été", "a"])), st.integers(1, 20))
def test_each_row_goes_to_the_queue_of_its_group(groups: list[str], queue_count: int) -> None:
    chosen = select_by_message_group(pa.array(groups, pa.string()), queue_count).to_pylist()
    assert chosen == [consistent_hash(hash_like_java(group), queue_count) for group in groups]


def test_topics_take_their_turns_apart() -> None:
    selector = QueueSelector()
    assert [selector.take_turn("a", 3, 1) for _ in range(4)] == [0, 1, 2, 0]
    assert selector.take_turn("b", 3, 1) == 0
    assert selector.take_turn("a", 3, 1) == 1


@given(st.lists(st.integers(0, 20)), st.integers(1, 7))
def test_many_rows_take_as_many_turns_as_single_sends(row_counts: list[int], queue_count: int) -> None:
    together, one_by_one = QueueSelector(), QueueSelector()
    for row_count in row_counts:
        first = together.take_turn("orders", queue_count, row_count)
        expected = [one_by_one.take_turn("orders", queue_count, 1) for _ in range(row_count)]
        assert [(first + row) % queue_count for row in range(row_count)] == expected


@given(st.lists(st.integers(1, 60)), st.integers(1, 9))
def test_without_a_minimum_each_queue_gets_as_many_messages_as_from_single_sends(
    row_counts: list[int], queue_count: int
) -> None:
    together, one_by_one = QueueSelector(), QueueSelector()
    for row_count in row_counts:
        got, expected = [0] * queue_count, [0] * queue_count
        slices = together.take_slices("orders", queue_count, row_count)
        for queue, count in slices:
            got[queue] += count
        assert slices[0][0] == one_by_one.take_turn("orders", queue_count, 1)
        expected[slices[0][0]] += 1
        for _ in range(row_count - 1):
            expected[one_by_one.take_turn("orders", queue_count, 1)] += 1
        assert got == expected


@given(
    calls=st.lists(st.tuples(st.integers(1, 5_000), st.sampled_from([0, 1, 2, 7, 100, 1_024])), max_size=60),
    queue_count=st.integers(1, 70),
    turn=st.integers(0, 100),
)
def test_slices_have_the_minimum_and_the_shares_of_queues_differ_by_one_slice_at_most(
    calls: list[tuple[int, int]], queue_count: int, turn: int
) -> None:
    selector = QueueSelector()
    selector.take_turn("orders", queue_count, turn)
    shares, longest = [0] * queue_count, 0
    for row_count, slice_rows_min in calls:
        slices = selector.take_slices("orders", queue_count, row_count, slice_rows_min)
        queues, counts = zip(*slices, strict=True)
        assert sum(counts) == row_count
        assert len(set(queues)) == len(queues) == max(1, min(queue_count, row_count // max(slice_rows_min, 1)))
        assert max(counts) - min(counts) <= 1
        assert min(counts) >= min(slice_rows_min, row_count)
        for queue, count in slices:
            assert 0 <= queue < queue_count
            shares[queue] += count
        longest = max(longest, *counts)
        assert max(shares) - min(shares) <= longest + 1


def test_shares_start_again_when_the_number_of_queues_changes() -> None:
    selector = QueueSelector()
    assert [selector.take_slices("orders", 3, 8, 5) for _ in range(2)] == [[(0, 8)], [(1, 8)]]
    assert selector.take_slices("orders", 2, 8, 5) == [(0, 8)]


def test_the_oldest_shares_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_selection, "SHARES_MAX", 2)
    selector = QueueSelector()
    taken = [selector.take_slices(topic, 3, 8, 5)[0][0] for topic in ("a", "b", "a", "c", "b", "a")]
    assert taken == [0, 0, 1, 0, 1, 0]


def test_the_oldest_turn_is_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue_selection, "TURNS_MAX", 2)
    selector = QueueSelector()
    for topic in ("a", "b", "a", "c"):
        selector.take_turn(topic, 3, 1)
    assert [selector.take_turn(topic, 3, 1) for topic in ("b", "c", "a")] == [1, 1, 0]


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 20))))
def test_a_turn_is_one_of_the_queues_however_their_number_changes(sends: list[tuple[int, int]]) -> None:
    selector = QueueSelector()
    for queue_count, row_count in sends:
        assert 0 <= selector.take_turn("orders", queue_count, row_count) < queue_count
