"""What is not acknowledged in time is stored again."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.model import Message, MessageQueue
from rmqpull_broker.core.popping import revival
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.state.facts import PopEnded, Popped, QueuesTrimmed
from tests.harness.core import CoreHarness

ORDERS, RETRIES = MessageQueue("orders", "broker-a", 0), MessageQueue("%RETRY%readers_orders", "broker-a", 0)


@pytest.fixture
def core() -> CoreHarness:
    """Four messages are in flight for group "readers" until 11,000 ms."""
    core = CoreHarness()
    core.topic()
    core.send(*(Message(b"%d" % number, f"id-{number}", properties={"p": "q"}) for number in range(4)))
    core.state.apply([Popped("readers", ORDERS, range(4), 1_000, 10_000)])
    return core


def revive(core: CoreHarness, now_ms: int) -> int:
    return core.run(lambda draft: revive_due(draft, now_ms, "host", lambda: "made"))


def test_nothing_is_redelivered_before_its_time(core: CoreHarness) -> None:
    assert revive(core, 10_999) == 0
    assert core.state.find_topic(RETRIES.topic) is None


def test_what_was_not_acknowledged_is_stored_again_once(core: CoreHarness) -> None:
    core.state.apply([PopEnded("readers", ORDERS, range(1, 3), 1_000)])
    assert (revive(core, 11_000), revive(core, 11_000)) == (2, 0)
    rows = core.rows(RETRIES)
    assert [(row.message.body, row.queue_offset, row.reconsume_times) for row in rows] == [(b"0", 0, 1), (b"3", 1, 1)]
    assert (rows[0].message.msg_id, rows[0].message.properties) == ("id-0", {"p": "q"})
    assert rows[0].message.system_properties == {"1ST_POP_TIME": "1000", "ORIGIN_GROUP": "readers"}
    assert len(core.state.popped) == 0


def test_a_retry_that_is_not_acknowledged_returns_to_its_topic(core: CoreHarness) -> None:
    revive(core, 11_000)
    core.state.apply([Popped("readers", RETRIES, range(1), 20_000, 10_000)])
    revive(core, 30_000)
    last = core.rows(RETRIES)[-1]
    assert (last.message.body, last.reconsume_times) == (b"0", 2)
    assert last.message.system_properties["1ST_POP_TIME"] == "1000"


def test_the_group_gets_an_offset_on_its_retries_which_count_as_lag_then(core: CoreHarness) -> None:
    revive(core, 11_000)
    assert core.state.consumer_offsets["readers", RETRIES] == 0
    core.state.consumer_offsets["readers", RETRIES] = 3
    core.state.apply([Popped("readers", RETRIES, range(1), 20_000, 10_000)])
    revive(core, 30_000)
    assert core.state.consumer_offsets["readers", RETRIES] == 3


def test_each_group_has_its_own_retries(core: CoreHarness) -> None:
    core.state.apply([Popped("others", ORDERS, range(1), 2_000, 9_000)])
    assert revive(core, 11_000) == 5
    assert len(core.rows(RETRIES._replace(topic="%RETRY%others_orders"))) == 1


def test_what_retention_has_deleted_is_not_redelivered(core: CoreHarness) -> None:
    core.state.apply([QueuesTrimmed(((ORDERS, 3),))])
    assert revive(core, 11_000) == 1
    assert [row.message.body for row in core.rows(RETRIES)] == [b"3"]
    assert len(core.state.popped) == 0


def test_one_command_stores_some_and_the_next_one_the_others(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(revival, "REVIVALS_MAX", 3)
    assert [revive(core, 11_000) for _ in range(3)] == [3, 1, 0]
    assert [row.message.body for row in core.rows(RETRIES)] == [b"0", b"1", b"2", b"3"]
