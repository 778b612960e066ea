"""When tasks are due."""

from __future__ import annotations

from rmqpull_client.consumers.core.timetable import Timetable


def test_tasks_are_due_at_once_and_then_once_in_each_period() -> None:
    timetable = Timetable({"heartbeat": 30, "rebalance": 20}, 100)
    assert timetable.take_due(100) == ["heartbeat", "rebalance"]
    assert (timetable.take_due(119), timetable.get_next_s()) == ([], 120)
    assert timetable.take_due(121) == ["rebalance"]  # late: the next one is a whole period later
    assert timetable.get_next_s() == 130
    assert timetable.take_due(200) == ["heartbeat", "rebalance"]


def test_a_task_can_be_hurried_and_not_put_off() -> None:
    timetable = Timetable({"rebalance": 20}, 0)
    timetable.take_due(0)
    timetable.hurry("rebalance", 5)
    timetable.hurry("rebalance", 50)
    assert (timetable.take_due(4), timetable.take_due(5), timetable.get_next_s()) == ([], ["rebalance"], 25)
