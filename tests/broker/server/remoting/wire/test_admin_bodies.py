"""Bodies of administration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.server.remoting.wire.admin_bodies import (
    GroupSettings,
    TopicSettings,
    read_property_lines,
    read_settings,
    write_property_lines,
    write_queue_entry,
    write_settings_table,
)
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import read_json, write_json


def test_settings_survive() -> None:
    topic = TopicSettings(topic_name="orders", order=True, attributes={"message.type": "FIFO"})
    assert read_settings(write_json(topic.to_json()), TopicSettings) == [topic]
    parts = write_settings_table("topicConfigTable", [("orders", topic)], more=1)
    table = read_json(b"".join(part for part in parts if part is not None))
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


def test_a_table_by_queue_has_objects_as_keys() -> None:
    assert write_queue_entry(("orders", "a", 1), {"maxOffset": 2}) == (
        b'{"brokerName":"a","queueId":1,"topic":"orders"}:{"maxOffset":2}',
    )


NAMES = st.from_regex(r"[a-zA-Z][a-zA-Z0-9]{0,9}", fullmatch=True)
VALUES = st.from_regex(r"[!-~]([ -~]{0,9}[!-~])?", fullmatch=True)


@given(st.dictionaries(NAMES, VALUES))
def test_lines_of_properties_survive(properties: dict[str, str]) -> None:
    assert read_property_lines(write_property_lines(properties)) == properties


def test_comments_and_blanks_are_no_properties() -> None:
    assert read_property_lines(b"# one\n! two\n\n a = b = c \nd\n") == {"a": "b = c", "d": ""}
