"""AVG and AVG_BY_CIRCLE: the tables of rules 2.2 and 2.3, which RocketMQ's own classes confirmed."""

from __future__ import annotations

import pytest

from rmqpull_client.allocation.strategies import Averagely, AveragelyByCircle
from rmqpull_client.model import MessageQueue
from tests.harness.allocation_tables import queues, shares


@pytest.mark.parametrize(
    ("owned", "expected"),
    [
        (queues(1), ["a0"]),
        (queues(4), ["a0 a1 a2 a3"]),
        (queues(4), ["a0 a1", "a2 a3"]),
        (queues(4), ["a0", "a1", "a2", "a3"]),
        (queues(3), ["a0", "a1", "a2", ""]),
        (queues(1), ["a0", "", ""]),
        (queues(5), ["a0 a1", "a2 a3", "a4"]),
        (queues(7), ["a0 a1 a2", "a3 a4", "a5 a6"]),
        (queues(8), ["a0 a1 a2", "a3 a4 a5", "a6 a7"]),
        (queues(10), ["a0 a1 a2", "a3 a4 a5", "a6 a7", "a8 a9"]),
        (queues(16), ["a0 a1 a2 a3 a4 a5", "a6 a7 a8 a9 a10", "a11 a12 a13 a14 a15"]),
        (queues(16), ["a0 a1 a2 a3", "a4 a5 a6", "a7 a8 a9", "a10 a11 a12", "a13 a14 a15"]),
        (queues(4, "ab"), ["a0 a1 a2", "a3 b0 b1", "b2 b3"]),
    ],
)
def test_averagely_allocates_contiguous_blocks(owned: list[MessageQueue], expected: list[str]) -> None:
    assert shares(Averagely(), owned, "ABCDE"[: len(expected)]) == expected


@pytest.mark.parametrize(
    ("owned", "expected"),
    [
        (queues(1), ["a0"]),
        (queues(4), ["a0 a1 a2 a3"]),
        (queues(4), ["a0 a2", "a1 a3"]),
        (queues(4), ["a0", "a1", "a2", "a3"]),
        (queues(3), ["a0", "a1", "a2", ""]),
        (queues(1), ["a0", "", ""]),
        (queues(5), ["a0 a3", "a1 a4", "a2"]),
        (queues(7), ["a0 a3 a6", "a1 a4", "a2 a5"]),
        (queues(8), ["a0 a3 a6", "a1 a4 a7", "a2 a5"]),
        (queues(10), ["a0 a4 a8", "a1 a5 a9", "a2 a6", "a3 a7"]),
        (queues(16), ["a0 a3 a6 a9 a12 a15", "a1 a4 a7 a10 a13", "a2 a5 a8 a11 a14"]),
        (queues(16), ["a0 a5 a10 a15", "a1 a6 a11", "a2 a7 a12", "a3 a8 a13", "a4 a9 a14"]),
        (queues(4, "ab"), ["a0 a3 b2", "a1 b0 b3", "a2 b1"]),
    ],
)
def test_by_circle_the_consumers_get_one_queue_in_turn(owned: list[MessageQueue], expected: list[str]) -> None:
    assert shares(AveragelyByCircle(), owned, "ABCDE"[: len(expected)]) == expected
