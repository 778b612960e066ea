"""All properties of a message in one map, as remoting consumers see them, and the size of its record
(rules 3.10.1, 4.7, 4.8, 6.1).
"""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.hidden_properties import hide_flags
from rmqpull_broker.core.messages.message_properties import (
    count_record_bytes,
    exceeds_stored_properties,
    find_record_bytes_max,
    make_stored_properties,
)
from rmqpull_broker.core.model import Message, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_proto.remoting.properties import OWN

OF_THE_BROKER = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


def test_a_bare_message_has_its_id_and_what_the_broker_adds() -> None:
    assert make_stored_properties(Message(b"x", "ID"), BrokerProperties()) == {"UNIQ_KEY": "ID", **OF_THE_BROKER}
    assert make_stored_properties(Message(b"x", ""), BrokerProperties()) == OF_THE_BROKER


def test_every_field_has_its_name() -> None:
    fields = Message(b"x", "ID", "red", ("k1", "k2"), {"a": "b"}, "group", 5, trace_context="trace")
    message = replace(fields, system_properties={"WAIT": "true"})
    broker = BrokerProperties(region_id="R", trace_on=False, broker_cluster_name="C")
    assert make_stored_properties(message, broker) == {
        "a": "b",
        "WAIT": "true",
        "TAGS": "red",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "ID",
        "__SHARDINGKEY": "group",
        "TRACE_CONTEXT": "trace",
        "TIMER_DELIVER_MS": "5",
        "MSG_REGION": "R",
        "TRACE_ON": "false",
        "CLUSTER": "C",
    }


def count_bytes(message: Message) -> int:
    """Returns the bytes of the properties string: those of each name and value, and two separators."""
    entries = make_stored_properties(message, BrokerProperties()).items()
    return sum(len(name.encode()) + len(value.encode()) + 2 for name, value in entries)


@pytest.mark.parametrize("letter", ["v", "é"])
@pytest.mark.parametrize("more", [{"msg_id": "ID"}, {"msg_id": "", "tags": "red"}, {"msg_id": "", "born_host": "host"}])
def test_the_properties_string_has_32767_bytes_at_most(letter: str, more: dict[str, Any]) -> None:
    def make(value: str) -> Message:
        return Message(b"x", **more, properties={"a": value})

    left = 32_767 - count_bytes(make(""))
    most = letter * (left // len(letter.encode())) + "." * (left % len(letter.encode()))
    assert not exceeds_stored_properties(make(most), BrokerProperties())
    assert exceeds_stored_properties(make(most + "."), BrokerProperties())


@pytest.mark.proves("Properties that the proxy adds for remoting consumers")
def test_a_producer_without_a_port_is_named_in_properties_as_apaches_proxy_does() -> None:
    of_proxy = Message(b"x", "ID", born_host="10.0.0.2", born_timestamp_ms=7)
    named = {"__BORNHOST": "10.0.0.2", "BORN_TIMESTAMP": "7"}
    assert make_stored_properties(of_proxy, BrokerProperties()) == {"UNIQ_KEY": "ID", **named, **OF_THE_BROKER}
    of_remoting = replace(of_proxy, born_host="10.0.0.2:5555")
    assert make_stored_properties(of_remoting, BrokerProperties()) == {"UNIQ_KEY": "ID", **OF_THE_BROKER}


def test_flags_are_no_properties() -> None:
    flagged = Message(b"x", "ID", system_properties=hide_flags(7, 2))
    assert make_stored_properties(flagged, BrokerProperties()) == {"UNIQ_KEY": "ID", **OF_THE_BROKER}
    assert sizes_of(stored(system_properties=hide_flags(7, 2))) == [BARE]


# --- the size of a record ---------------------------------------------------------------------------------------------

BARE = 91 + len("t") + 1 + len("MSG_REGION\1DefaultRegion\2TRACE_ON\1true\2CLUSTER\1DefaultCluster\2")
"""Of a message of topic ``t`` with a body of one byte and nothing else."""


def sizes_of(*rows: StoredMessage, topic: str = "t") -> list[int]:
    sizes: list[int] = count_record_bytes(columns.from_rows(rows), topic, BrokerProperties()).to_pylist()
    return sizes


def stored(store_host: str = "10.0.0.1:8081", **fields: Any) -> StoredMessage:
    return StoredMessage(
        Message(**{"body": b"x", "msg_id": "", "born_host": "10.0.0.2:5555", **fields}), 0, 0, store_host
    )


@pytest.mark.parametrize(
    ("fields", "more"),
    [
        ({}, 0),
        ({"body": bytes(100)}, 99),
        ({"msg_id": "ID"}, len("UNIQ_KEY\1ID\2")),
        ({"tags": "red"}, len("TAGS\1red\2")),
        ({"keys": ("k1", "k2")}, len("KEYS\1k1 k2\2")),
        ({"properties": {"a": "\u00e9", "b": ""}}, len("a\1..\2b\1\2")),
        ({"system_properties": {"PGROUP": "p"}}, len("PGROUP\1p\2")),
        ({"message_group": "g"}, len("__SHARDINGKEY\1g\2")),
        ({"message_group": "g", "properties": {"__SHARDINGKEY": "ggg"}}, len("__SHARDINGKEY\1g\2")),
        ({"properties": {"__SHARDINGKEY": "ggg"}}, len("__SHARDINGKEY\1ggg\2")),
        ({"trace_context": "t", "properties": {"TRACE_CONTEXT": "ttt"}}, len("TRACE_CONTEXT\1t\2")),
        ({"delivery_timestamp_ms": 1_700_000_000_000}, len("TIMER_DELIVER_MS\0011700000000000\2")),
        ({"born_host": "[::1]:5555"}, 12),
        ({"born_host": "[::1]:5555", "store_host": "[::1]:8081"}, 24),
        ({"born_host": "10.0.0.2"}, len("__BORNHOST\00110.0.0.2\2BORN_TIMESTAMP\0010\2")),
        ({"born_host": "::1"}, 12 + len("__BORNHOST\1::1\2BORN_TIMESTAMP\0010\2")),
    ],
)
def test_a_record_takes_what_the_layout_says(fields: dict[str, Any], more: int) -> None:
    assert sizes_of(stored(**fields)) == [BARE + more]


@pytest.mark.parametrize(("length", "more"), [(127, 126), (128, 128), (255, 255)])
def test_a_topic_of_more_than_127_bytes_has_a_longer_length_field(length: int, more: int) -> None:
    assert sizes_of(stored(), topic="t" * length) == [BARE + more]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=5)
# Sends refuse names of RocketMQ, or move them.
NAMES = TEXTS.filter(lambda name: name not in OWN) | st.sampled_from(["__SHARDINGKEY", "TRACE_CONTEXT"])
MESSAGES = st.builds(
    stored,
    body=st.binary(min_size=1, max_size=5),
    msg_id=TEXTS.filter(bool),
    tags=st.none() | TEXTS,
    keys=st.lists(TEXTS.filter(bool), max_size=3).map(tuple),
    properties=st.dictionaries(NAMES, TEXTS, max_size=3),
    system_properties=st.dictionaries(st.sampled_from(["PGROUP", "DELAY"]), TEXTS),
    message_group=st.none() | TEXTS,
    trace_context=st.none() | TEXTS,
    delivery_timestamp_ms=st.none() | st.integers(-(10**13), 10**13),
)


@given(st.lists(MESSAGES, min_size=1, max_size=6), st.data())
def test_a_record_is_the_fixed_part_the_body_the_topic_and_the_properties_string(
    rows: list[StoredMessage], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(rows) - 1))
    batch = columns.from_rows(rows).slice(start)
    sizes = count_record_bytes(batch, "orders", BrokerProperties()).to_pylist()
    assert sum(sizes) <= find_record_bytes_max(batch, "orders", BrokerProperties())
    messages = [row.message for row in rows[start:]]
    assert sizes == [91 + 6 + len(each.body) + count_bytes(each) for each in messages]
