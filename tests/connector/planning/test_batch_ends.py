"""How far batches may go, with and without trigger AvailableNow."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.batch_ends import BatchEnds
from rmqpull_client.errors import DataLoss
from rmqpull_client.model import MessageQueue

A0, A1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)


def available_now() -> BatchEnds:
    """Planned to offset 9 of one queue."""
    ends = BatchEnds()
    ends.is_available_now = True
    assert ends.reachable({A0: 2}, {A0: 9}, may_lose=False) == {A0: 9}
    return ends


@pytest.mark.parametrize(("ends", "reachable"), [({A0: 9}, 9), ({A0: 2}, 2), ({A0: 1}, 2), ({}, 2)])
def test_a_batch_goes_to_the_end_and_never_back(ends: dict[MessageQueue, int], reachable: int) -> None:
    assert BatchEnds().reachable({A0: 2}, ends, may_lose=False) == {A0: reachable}


def test_available_now_keeps_the_ends_that_it_saw_first() -> None:
    assert available_now().reachable({A0: 5}, {A0: 99}, may_lose=False) == {A0: 9}


def test_a_queue_that_comes_later_is_left_where_it_begins() -> None:
    assert available_now().reachable({A0: 5, A1: 3}, {A0: 9, A1: 8}, may_lose=False) == {A0: 9, A1: 3}


def test_what_is_gone_since_is_a_loss_or_not_waited_for() -> None:
    with pytest.raises(DataLoss, match="2 messages of queue orders/a/0 are gone"):
        available_now().reachable({A0: 5}, {A0: 7}, may_lose=False)
    assert available_now().reachable({A0: 5}, {A0: 7}, may_lose=True) == {A0: 7}
