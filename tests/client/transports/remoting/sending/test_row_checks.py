"""Rows that no broker can store, or that nobody could read, are found before anything is sent."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rmqpull_client.transports.remoting.sending.row_checks import find_illegal_rows, find_other_types
from rmqpull_proto.columns import PUBLISH_SCHEMA
from rmqpull_proto.remoting.properties import NOT_WRITABLE


def find(*rows: dict[str, Any], start: int = 0) -> dict[int, str]:
    given = [{"body": b"x"} | row for row in rows]
    names = dict.fromkeys(name for row in given for name in row)
    columns = {name: pa.array([row.get(name) for row in given], PUBLISH_SCHEMA.field(name).type) for name in names}
    return find_illegal_rows(pa.record_batch(columns).slice(start))


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"tags": "a", "keys": ["k", "l"], "properties": [("name", "value")], "messageGroup": "g"},
        {"tags": "Größe", "keys": [], "properties": []},
        {"tags": "", "messageGroup": ""},  # as if there were none
        {"properties": [("__SHARDINGKEY", "g")]},  # not reserved
        {"properties": [("a", "\x01b\x01c\x01"), ("b", "\n\x00")]},
        {"bodyEncoding": 0x201},
    ],
)
def test_a_row_of_an_ordinary_kind_is_legal(row: dict[str, Any]) -> None:
    assert find({}, row) == {}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"body": b""}, "its body is empty"),
        ({"body": None}, "its body is empty"),
        ({"body": bytes((15 << 20) + 1)}, "its body has more than 15728640 bytes, the limit of a request"),
        ({"tags": "a\x01b"}, "its column tags has a character 1 or 2, with which RocketMQ separates properties"),
        ({"tags": "a|b"}, "its tag has a |, which separates tags"),
        ({"messageGroup": "a\x02"}, "its column messageGroup has a character 1 or 2"),
        ({"msgId": "\x02"}, "its column msgId has a character 1 or 2"),
        ({"keys": ["k", ""]}, "one of its keys is empty"),
        ({"keys": ["k", "\x01"]}, "one of its keys has a character 1 or 2"),
        ({"properties": [("a", "b"), ("", "c")]}, "a property has an empty name"),
        ({"properties": [("a", "")]}, "property a is empty, and RocketMQ drops empty properties"),
        ({"properties": [("a", "b"), ("DELAY", "3")]}, "property DELAY is RocketMQ's own"),
        ({"properties": [("a\x01", "b")]}, "the name of a property has a character 1 or 2"),
        (
            {"properties": [("a", "b\x02")]},
            "the value of a property has a character 2",
        ),
        ({"bodyEncoding": 7}, "its bodyEncoding is 7, which is unknown"),
    ],
)
def test_an_illegal_row_is_named_with_the_reason(row: dict[str, Any], reason: str) -> None:
    legal = {"keys": ["k"], "properties": [("a", "b"), ("c", "d")]}
    found = find(legal, legal, row, legal)
    assert list(found) == [2]
    assert found[2].startswith(reason)
    assert find(legal, legal, row, legal, start=1) == {1: found[2]}


@pytest.mark.parametrize("name", sorted(NOT_WRITABLE))
def test_a_property_of_rocketmqs_is_illegal(name: str) -> None:
    assert find({}, {"properties": [("a", "b"), (name, "x")]}) == {1: f"property {name} is RocketMQ's own"}


def test_each_row_has_the_reason_of_the_first_rule_that_it_breaks() -> None:
    assert find({"body": b"", "tags": "\x01"}, {}, {"tags": "\x01"}) == {
        0: "its body is empty",
        2: "its column tags has a character 1 or 2, with which RocketMQ separates properties",
    }


@pytest.mark.parametrize(
    ("types", "others"),
    [
        ({"NORMAL"}, {1: "PRIORITY", 2: "FIFO", 3: "DELAY"}),
        ({"FIFO"}, {0: "NORMAL", 1: "PRIORITY", 3: "DELAY"}),
        ({"NORMAL", "PRIORITY"}, {}),
    ],
)
def test_a_priority_is_the_type_of_a_row_without_group_and_time(types: set[str], others: dict[int, str]) -> None:
    """As ``TopicMessageType.parseFromMessageProperty`` of 5.5.0."""
    rows = pa.record_batch(
        {
            "priority": pa.array([None, 0, 3, 3], pa.int32()),
            "messageGroup": pa.array([None, None, "g", None]),
            "deliveryTimestamp": pa.array([None, None, None, 1], pa.timestamp("us", tz="UTC")),
        }
    )
    assert find_other_types(rows, frozenset(types)) == others


@pytest.mark.parametrize(
    ("types", "others"),
    [
        ({"NORMAL"}, {1: "FIFO", 3: "DELAY", 4: "DELAY"}),
        ({"FIFO"}, {0: "NORMAL", 2: "NORMAL", 3: "DELAY", 4: "DELAY"}),
        ({"DELAY"}, {0: "NORMAL", 1: "FIFO", 2: "NORMAL"}),
        ({"NORMAL", "FIFO", "DELAY"}, {}),
    ],
)
def test_a_topic_with_one_type_takes_no_other(types: set[str], others: dict[int, str]) -> None:
    groups, times = (
        pa.array([None, "g", "", None, "g"]),
        pa.array([None, None, None, 1, 1], pa.timestamp("us", tz="UTC")),
    )
    rows = pa.record_batch({"messageGroup": groups, "deliveryTimestamp": times})
    assert find_other_types(rows, frozenset(types)) == others
