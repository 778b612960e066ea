"""Stats by minute, hour and day."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.stage_facts import Splice, StagesCommitted, TransactionId
from rmqpull_broker.server.runtime import stats
from rmqpull_broker.server.runtime.stats import Snapshot, Stats

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def pulled(counted: Stats, count: int, now_ms: int, group: str = "readers") -> None:
    counted.count_pulled("broker-a", "orders", group, count, now_ms)


@pytest.mark.parametrize(
    ("passed_ms", "sums"),
    [
        (0, (6, 6, 6)),
        (49 * SECOND, (6, 6, 6)),
        (MINUTE, (0, 6, 6)),
        (50 * MINUTE, (0, 6, 6)),
        (HOUR, (0, 0, 6)),
        (23 * HOUR, (0, 0, 6)),
        (24 * HOUR, (0, 0, 0)),
    ],
)
def test_messages_leave_the_periods_in_turn(passed_ms: int, sums: tuple[int, int, int]) -> None:
    counted = Stats()
    for count in (1, 2, 3):
        pulled(counted, count, 0)
    stat = counted.find("broker-a", stats.GROUP_GET_NUMS, "orders@readers")
    assert stat is not None
    assert tuple(period.read(passed_ms).sum for period in (stat.minute, stat.hour, stat.day)) == sums
    assert stat.total == 6


def test_a_snapshot_has_the_rate_and_the_average() -> None:
    counted = Stats()
    for now_ms in (0, 20 * SECOND):
        pulled(counted, 30, now_ms)
    stat = counted.find("broker-a", stats.GROUP_GET_NUMS, "orders@readers")
    assert stat is not None
    assert stat.minute.read(30 * SECOND) == Snapshot(60, 1.0, 30.0)
    assert counted.count_per_second("broker-a", stats.GROUP_GET_NUMS, "orders@nobody", 0) == 0.0


def test_the_oldest_stats_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "STATS_MAX", 3)
    counted = Stats()
    for group in ("first", "second", "third"):
        pulled(counted, 1, 0, group)
    total = counted.find("broker-a", stats.BROKER_GET_NUMS)
    assert total is not None
    assert total.total == 3  # it is counted with each group
    assert counted.find("broker-a", stats.GROUP_GET_NUMS, "orders@first") is None
    assert counted.find("broker-a", stats.GROUP_GET_NUMS, "orders@third") is not None


def test_a_commit_counts_its_messages() -> None:
    counted, queue = Stats(), MessageQueue("orders", "broker-a", 0)
    splices = (Splice(queue, queue, 0, 3, 30, 1, "host"), Splice(queue, queue._replace(queue_id=1), 4, 2, 7, 1, "host"))
    counted.count_stored([StagesCommitted(TransactionId("query", 1), ("a",), None, splices)], 1_000)
    for name, key in ((stats.TOPIC_PUT_NUMS, "orders"), (stats.BROKER_PUT_NUMS, "")):
        stat = counted.find("broker-a", name, key)
        assert stat is not None
        assert stat.total == 5


def test_staged_topics_do_not_count() -> None:
    counted = Stats()
    counted._count_put("broker-a", f"{STAGE_PREFIX}s", 1, 0)
    assert counted.find("broker-a", stats.BROKER_PUT_NUMS) is None
