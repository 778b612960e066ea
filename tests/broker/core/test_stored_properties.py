"""All properties of a message in one map, as remoting consumers see them (rocketmq-semantics 3.10.1, 6.1)."""

from dataclasses import replace

from rmqpull_broker.core.model import Message
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.stored_properties import stored_properties, stored_properties_bytes

OF_THE_BROKER = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true", "CLUSTER": "DefaultCluster"}


def test_a_bare_message_has_its_id_and_what_the_broker_adds() -> None:
    assert stored_properties(Message(b"x", "ID"), BrokerProperties()) == {"UNIQ_KEY": "ID", **OF_THE_BROKER}
    assert stored_properties(Message(b"x", ""), BrokerProperties()) == OF_THE_BROKER


def test_every_field_has_its_name() -> None:
    fields = Message(b"x", "ID", "red", ("k1", "k2"), {"a": "b"}, "group", 5, trace_context="trace")
    message = replace(fields, system_properties={"WAIT": "true"})
    broker = BrokerProperties(region_id="R", trace_on=False, broker_cluster_name="C")
    assert stored_properties(message, broker) == {
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


def test_the_properties_string_counts_bytes_and_two_separators_each() -> None:
    bare = stored_properties_bytes(Message(b"x", "ID"), BrokerProperties())
    assert stored_properties_bytes(Message(b"x", "ID", properties={"a": "é"}), BrokerProperties()) == bare + 5
