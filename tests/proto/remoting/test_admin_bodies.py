"""Bodies of administration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.remoting.admin_bodies import (
    GroupSettings,
    TopicSettings,
    read_property_lines,
    read_settings,
    write_consume_stats_list,
    write_property_lines,
    write_queue_table,
    write_settings_table,
)
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json, write_json


def test_settings_survive() -> None:
    topic = TopicSettings(topic_name="orders", order=True, attributes={"message.type": "FIFO"})
    assert read_settings(write_json(topic.to_json()), TopicSettings) == [topic]
    table = read_json(write_settings_table("topicConfigTable", {"orders": topic}, more=1))
    assert TopicSettings.from_json(table["topicConfigTable"]["orders"]) == topic
    assert table["more"] == 1


def test_missing_and_unknown_fields() -> None:
    assert read_settings(b'{"groupName":"a","retryMaxTimes":null,"new":1}', GroupSettings) == [
        GroupSettings(group_name="a")
    ]


@pytest.mark.parametrize(
    ("body", "name", "words"),
    [
        (b"7", "", "TopicSettings is 7, expected an object"),
        (b'{"perm":"6"}', "", "perm is '6', expected int"),
        (b'{"order":1}', "", "order is 1, expected bool"),
        (b'{"attributes":[]}', "", r"attributes is \[\], expected dict"),
        (b'{"topics":{}}', "topics", "topics is {}, expected a list"),
        (b"[]", "topics", "topics is None, expected a list"),
    ],
)
def test_bad_settings(body: bytes, name: str, words: str) -> None:
    with pytest.raises(WireError, match=words):
        read_settings(body, TopicSettings, name)


def test_tables_by_queue_have_objects_as_keys() -> None:
    table = write_queue_table("offsetTable", [("orders", "a", 1, {"maxOffset": 2})], {"tps": 0.5})
    assert table == b'{"tps":0.5,"offsetTable":{{"brokerName":"a","queueId":1,"topic":"orders"}:{"maxOffset":2}}}'
    assert write_queue_table("offsetTable", [], {}) == b'{"offsetTable":{}}'
    listed = read_json(write_consume_stats_list({"readers": [table], "idle": []}, {"totalDiff": 3}))
    assert listed == {"consumeStatsList": [{"readers": [read_json(table)]}, {"idle": []}], "totalDiff": 3}


NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9]{0,9}", fullmatch=True)
VALUES = st.from_regex(r"[!-~]([ -~]{0,9}[!-~])?", fullmatch=True)


@given(st.dictionaries(NAMES, VALUES))
def test_lines_of_properties_survive(properties: dict[str, str]) -> None:
    assert read_property_lines(write_property_lines(properties)) == properties


def test_comments_and_blanks_are_no_properties() -> None:
    assert read_property_lines(b"# one\n! two\n\n a = b = c \nd\n") == {"a": "b = c", "d": ""}
