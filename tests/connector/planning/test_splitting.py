"""Splitting partitions: the vectors of Spark's ``KafkaOffsetRangeCalculatorSuite`` (acceptance cases 56 and 57)."""

from __future__ import annotations

from itertools import groupby
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.planning import splitting
from pyspark_rmqpull.planning.splitting import Partition, split_by_bytes, split_partitions
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue, QueueRange
from tests.harness.fake_broker_client import FakeCutter


def entry(topic: str, from_offset: int, until_offset: int) -> QueueRange:
    return QueueRange(MessageQueue(topic, "a", 0), from_offset, until_offset)


def ranges(text: str) -> list[QueueRange]:
    """``t1 1-5, t2 1-21``."""
    words = [word.replace("-", " ").split() for word in text.split(",") if word]
    return [entry(topic, int(from_offset), int(until)) for topic, from_offset, until in words]


def split(text: str, partitions_min: int | None = None, records_max: int | None = None) -> list[QueueRange]:
    """Splits partitions of one range each, and returns the parts."""
    parts = split_partitions([(one,) for one in ranges(text)], partitions_min, records_max)
    assert all(len(part) == 1 for part in parts)
    return [part[0] for part in parts]


@pytest.mark.parametrize(
    ("given", "partitions_min", "expected"),
    [
        ("t1 1-5", None, "t1 1-5"),
        ("t1 1-5", 1, "t1 1-5"),
        ("t1 1-5", 4, "t1 1-2, t1 2-3, t1 3-4, t1 4-5"),
        ("t1 1-5, t2 1-21", 4, "t1 1-5, t2 1-7, t2 7-14, t2 14-21"),
        ("t1 1-1, t2 1-21", 4, "t2 1-6, t2 6-11, t2 11-16, t2 16-21"),
        ("t1 1-2, t2 1-1001", 4, "t1 1-2, t2 1-334, t2 334-667, t2 667-1001"),
        ("t1 1-5, t2 1-21", 1, "t1 1-5, t2 1-21"),
        ("t1 1-11", 3, "t1 1-4, t1 4-7, t1 7-11"),
        (
            "t1 0-10, t2 0-10, t3 0-1",
            6,
            "t1 0-3, t1 3-6, t1 6-10, t2 0-3, t2 3-6, t2 6-10, t3 0-1",
        ),
        (
            "t1 0-10000, t2 0-15000, t3 0-20000",
            9,
            "t1 0-5000, t1 5000-10000, t2 0-5000, t2 5000-10000, t2 10000-15000, "
            "t3 0-5000, t3 5000-10000, t3 10000-15000, t3 15000-20000",
        ),
        (
            "t1 0-500, t2 0-12000, t3 0-15001",
            6,
            "t1 0-500, t2 0-6000, t2 6000-12000, t3 0-5000, t3 5000-10000, t3 10000-15001",
        ),
        (
            "t1 0-1, t2 0-1, t3 0-10000",
            6,
            "t1 0-1, t2 0-1, t3 0-2500, t3 2500-5000, t3 5000-7500, t3 7500-10000",
        ),
        ("t1 0-2", 9, "t1 0-1, t1 1-2"),
        ("t1 3-3", 9, ""),
        ("", 9, ""),
    ],
)
def test_case_56_too_few_partitions_are_cut(given: str, partitions_min: int | None, expected: str) -> None:
    assert split(given, partitions_min) == ranges(expected)


@pytest.mark.parametrize(
    ("given", "partitions_min", "records_max", "expected"),
    [
        ("t1 1-6", None, 4, "t1 1-3, t1 3-6"),
        (
            "t1 1-40, t2 1-50, t3 1-60",
            None,
            20,
            "t1 1-20, t1 20-40, t2 1-17, t2 17-33, t2 33-50, t3 1-20, t3 20-40, t3 40-60",
        ),
        ("t1 1-40", 1, 20, "t1 1-20, t1 20-40"),
        ("t1 1-40", 4, 20, "t1 1-10, t1 10-20, t1 20-30, t1 30-40"),
        ("t1 1-5", None, 4, "t1 1-5"),
    ],
)
def test_case_57_large_partitions_are_cut(
    given: str, partitions_min: int | None, records_max: int, expected: str
) -> None:
    assert split(given, partitions_min, records_max) == ranges(expected)


def test_a_partition_of_several_queues_is_cut_as_one() -> None:
    whole = (entry("t1", 0, 3), entry("t2", 0, 0), entry("t3", 10, 17))
    assert split_partitions([whole], None, 5) == [
        (entry("t1", 0, 3), entry("t3", 10, 12)),
        (entry("t3", 12, 17),),
    ]


def test_a_plan_of_too_many_partitions_is_refused() -> None:
    assert len(split_partitions([(entry("t1", 0, 100_000),)], None, 1)) == 100_000
    with pytest.raises(OptionError) as refused:
        split_partitions([(entry("t1", 0, 100_001),)], None, 1)
    assert str(refused.value) == (
        "Option maxRecordsPerPartition is 1, which splits the 100001 messages of a micro-batch into 100001 partitions; "
        "the limit is 100000. Raise maxRecordsPerPartition, or set maxOffsetsPerTrigger."
    )


@st.composite
def plans(draw: st.DrawFn) -> list[Partition]:
    """Partitions that share no queue."""
    sizes = draw(st.lists(st.lists(st.integers(0, 50), max_size=5), max_size=6))
    return [
        tuple(QueueRange(MessageQueue(f"t{number}", "a", queue_id), 7, 7 + size) for queue_id, size in enumerate(mine))
        for number, mine in enumerate(sizes)
    ]


def messages(partitions: list[Partition]) -> list[tuple[MessageQueue, int]]:
    return [(queue, offset) for part in partitions for queue, first, until in part for offset in range(first, until)]


@given(whole=plans(), partitions_min=st.none() | st.integers(1, 40), records_max=st.none() | st.integers(1, 30))
def test_parts_are_the_same_messages_in_the_same_order(
    whole: list[Partition], partitions_min: int | None, records_max: int | None
) -> None:
    parts = split_partitions(whole, partitions_min, records_max)
    assert messages(parts) == messages(whole)
    assert all(parts)
    assert all(one.size > 0 for part in parts for one in part)
    assert records_max is None or all(sum(one.size for one in part) <= records_max for part in parts)
    for part in parts:  # a task pulls each of its queues once
        assert len(list(groupby(part, key=lambda one: one.queue))) == len({one.queue for one in part})


T1, T2 = MessageQueue("t1", "a", 0), MessageQueue("t2", "a", 0)


@pytest.mark.parametrize(
    ("whole", "bytes_max", "expected"),
    [
        (["t1 0-4"], 40, ["t1 0-4"]),
        (["t1 0-4"], 39, ["t1 0-3", "t1 3-4"]),
        (["t1 0-4"], 20, ["t1 0-2", "t1 2-4"]),
        (["t1 0-4"], 9, ["t1 0-1", "t1 1-2", "t1 2-3", "t1 3-4"]),  # each is above the limit, so each is alone
        (["t1 0-4", "t2 0-3"], 30, ["t1 0-3", "t1 3-4", "t2 0-1", "t2 1-3"]),
        (["t1 0-4, t2 0-3"], 30, ["t1 0-3", "t1 3-4", "t2 0-1", "t2 1-3"]),
        (["t1 3-4, t2 1-3"], 30, ["t1 3-4, t2 1-3"]),
        (["t1 0-0", "t1 2-3, t2 2-2"], 30, ["t1 2-3"]),
        (["t1 0-9"], 20, ["t1 0-2", "t1 2-9"]),  # lost messages keep their place in the order
        (["t3 5-9, t1 0-2"], 20, ["t3 5-9, t1 0-2"]),
        ([], 20, []),
    ],
)
def test_large_partitions_are_cut_by_bytes(whole: list[str], bytes_max: int, expected: list[str]) -> None:
    cutter = FakeCutter({T1: [10] * 4, T2: [30, 5, 5]})
    parts = split_by_bytes([tuple(ranges(part)) for part in whole], bytes_max, cutter)
    assert parts == [tuple(ranges(part)) for part in expected]
    assert len(cutter.calls) == 1


def test_a_plan_of_too_many_partitions_by_bytes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "PARTITIONS_MAX", 4)
    cutter = FakeCutter({T1: [10] * 9})
    assert len(split_by_bytes([tuple(ranges("t1 0-4"))], 10, cutter)) == 4
    with pytest.raises(OptionError) as refused:
        split_by_bytes([tuple(ranges("t1 0-9"))], 10, cutter)
    assert str(refused.value) == (
        "Option maxBytesPerPartition is 10, which splits the 9 messages of a micro-batch into more than 4 partitions, "
        "which is the limit. Raise maxBytesPerPartition, or set maxBytesPerTrigger."
    )
    assert cutter.calls[-1][0].parts_max == 5  # more than the limit of partitions need not be known


@given(whole=plans(), bytes_max=st.integers(1, 60), seed=st.randoms(use_true_random=False))
def test_parts_by_bytes_are_the_same_messages_in_the_same_order(
    whole: list[Partition], bytes_max: int, seed: Random
) -> None:
    queues = [entry.queue for part in whole for entry in part]
    sizes = {queue: [seed.randint(1, 30) for _ in range(57)] for queue in queues}
    parts = split_by_bytes(whole, bytes_max, FakeCutter(sizes))
    assert messages(parts) == messages(whole)
    for part in parts:
        held = messages([part])
        assert held
        assert sum(sizes[queue][offset] for queue, offset in held) <= bytes_max or len(held) == 1
        assert len({one.queue for one in part}) == len(part)  # a task pulls each of its queues once
