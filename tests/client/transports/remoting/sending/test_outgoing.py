"""Rows become messages with RocketMQ's properties, ids and delays."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rmqpull_client.transports.remoting.sending.outgoing import (
    MessageIds,
    get_sys_flags,
    make_delays,
    make_priorities,
    make_property_texts,
)
from rmqpull_proto.columns import PUBLISH_SCHEMA
from rmqpull_proto.remoting.properties import decode_properties
from tests.harness.uniq_keys import parse_uniq_key

NOW_MS = 1_772_366_400_000
HOUR_MS = 3_600_000


def make_rows(*rows: dict[str, Any]) -> pa.RecordBatch:
    given = [{"body": b"x"} | row for row in rows]
    names = dict.fromkeys(name for row in given for name in row)
    return pa.record_batch(
        {name: pa.array([row.get(name) for row in given], PUBLISH_SCHEMA.field(name).type) for name in names}
    )


def make(*rows: dict[str, Any], start: int = 0, delays: Any = None) -> list[dict[str, str]]:
    """Returns the properties of messages of rows with the ids ``0``, ``1`` and so on."""
    given = make_rows(*rows).slice(start)
    ids = pa.array([str(number) for number in range(given.num_rows)])
    return [decode_properties(text) for text in make_property_texts(given, ids, delays or {}).to_pylist()]


def test_a_row_becomes_a_message_with_all_its_properties() -> None:
    row = {"tags": "T", "keys": ["k", "l"], "messageGroup": "g", "properties": [("a", "b"), ("c", "d")]}
    properties = {"TAGS": "T", "KEYS": "k l", "__SHARDINGKEY": "g", "a": "b", "c": "d"}
    assert make(row) == [{**properties, "UNIQ_KEY": "0"}]


def test_missing_and_empty_values_are_no_properties() -> None:
    empty = {"tags": "", "keys": [], "messageGroup": "", "properties": [], "msgId": ""}
    full = {"tags": "T", "keys": ["k"], "messageGroup": "g", "properties": [("a", "b")], "msgId": "own"}
    own = {"TAGS": "T", "KEYS": "k", "__SHARDINGKEY": "g", "a": "b", "UNIQ_KEY": "own"}
    assert make({}, empty, full, {}) == [
        {"UNIQ_KEY": "0"},
        {"UNIQ_KEY": "1"},
        own,
        {"UNIQ_KEY": "3"},
    ]
    assert make({}, empty, full, {}, start=2) == [own, {"UNIQ_KEY": "1"}]


def test_delays_are_properties() -> None:
    first, second = make({}, {}, delays={"DELAY": pa.array([None, "3"])})
    assert "DELAY" not in first
    assert second["DELAY"] == "3"


@pytest.mark.parametrize(
    ("after_ms", "level"),
    [(1, "1"), (1_000, "1"), (1_001, "2"), (5_000, "2"), (61_000, "6"), (2 * HOUR_MS, "18")],
)
def test_without_a_timer_a_message_gets_the_first_level_that_is_not_before_its_time(after_ms: int, level: str) -> None:
    times = pa.array([(NOW_MS + after_ms) * 1_000, None], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    delays, too_late = make_delays(times, NOW_MS, has_timer=False)
    assert {name: column.to_pylist() for name, column in delays.items()} == {"DELAY": [level, None]}
    assert not too_late


def test_without_a_timer_no_message_is_delayed_for_more_than_two_hours() -> None:
    times = pa.array([0, (NOW_MS + 2 * HOUR_MS + 1) * 1_000, (NOW_MS + 1) * 1_000], pa.int64())
    delays, too_late = make_delays(times.cast(pa.timestamp("us", tz="UTC")), NOW_MS, has_timer=False)
    assert delays["DELAY"].to_pylist() == [None, None, "1"]
    assert list(too_late) == [1]
    assert too_late[1].startswith("its deliveryTimestamp is more than two hours ahead.")


def test_with_a_timer_times_are_exact_and_those_that_have_passed_delay_nothing() -> None:
    times = pa.array([None, NOW_MS * 1_000, (NOW_MS + 5) * 1_000, (NOW_MS + 99 * HOUR_MS) * 1_000], pa.int64())
    delays, too_late = make_delays(times.cast(pa.timestamp("us", tz="UTC")), NOW_MS, has_timer=True)
    assert delays["TIMER_DELIVER_MS"].to_pylist() == [None, None, str(NOW_MS + 5), str(NOW_MS + 99 * HOUR_MS)]
    assert not too_late
    assert make_delays(times.cast(pa.timestamp("us", tz="UTC")).slice(0, 2), NOW_MS, has_timer=True) == ({}, {})


def test_the_system_flag_says_how_a_body_is_compressed() -> None:
    encodings = [None, 1, 2, 0x101, 0x201, 0x301]
    assert get_sys_flags(make_rows(*({"bodyEncoding": each} for each in encodings))).tolist() == [
        *(0, 0, 1),
        *(0x101, 0x201, 0x301),
    ]
    assert get_sys_flags(make_rows({}, {})).tolist() == [0, 0]


def test_ids_have_the_form_of_apaches_clients_and_do_not_repeat() -> None:
    ids = MessageIds("10.1.2.3", 0x12345)
    taken = [text for count in (3, 70_000, 5) for text in ids.take(count, NOW_MS).to_pylist()]
    assert len(set(taken)) == len(taken)
    first, last = parse_uniq_key(taken[0]), parse_uniq_key(taken[-1])
    assert (first.host, first.pid, first.counter) == ("10.1.2.3", 0x2345, 0)
    assert (last.loader_hash, last.month_ms, last.counter) == (first.loader_hash, first.month_ms + 1, 70_007 - 65_536)
    later = parse_uniq_key(ids.take(1, NOW_MS + 1_000)[0].as_py())
    assert (later.month_ms, later.counter) == (first.month_ms + 1_000, 0)


def test_priorities_are_sent_unless_a_broker_would_take_them_away() -> None:
    """It does from delayed messages and from those of a group (SendMessageProcessor of 5.5.0)."""
    rows = pa.record_batch(
        {"priority": pa.array([0, None, 3, 3, 12], pa.int32()), "messageGroup": pa.array([None, "g", "g", "", None])}
    )
    delays = {"TIMER_DELIVER_MS": pa.array([None, None, None, None, "5"])}
    (texts,) = make_priorities(rows, delays).values()
    assert texts.to_pylist() == ["0", None, None, "3", None]
    assert make_priorities(rows.select(["messageGroup"]), delays) == {}
    assert make_priorities(rows.slice(1, 1), {}) == {}
    (text,) = make_property_texts(rows.slice(0, 1), pa.array(["id"]), make_priorities(rows.slice(0, 1), {})).to_pylist()
    assert decode_properties(text) == {"UNIQ_KEY": "id", "_SYS_MSG_PRIORITY_": "0"}
