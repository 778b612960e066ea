"""What servers refuse, as Apache's gRPC clients show it: the sentence of the server is in the error of the client."""

from __future__ import annotations

import re
import time

import pytest

from tests.clients.programs.grpc.clients import ClientRefused
from tests.harness.grpc_servers import GrpcPlace, TopicType, receive_all, send

DAY_MS = 86_400_000


def test_an_unknown_topic_is_refused(place: GrpcPlace) -> None:
    """Sends create no topics."""
    producer = place.start_producer(place.create_topic())
    with pytest.raises(ClientRefused):
        send(producer, "topic-that-nobody-created", "lost")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"properties": {"TAGS": "red"}}, "property is used by system: TAGS"),
        ({"properties": {"a": "x" * 17_000}}, "the total size of user property is too large, max is 16384"),
        ({"tag": "red", "properties": {str(n): "b" for n in range(129)}}, "too many user properties, max is 128"),
    ],
    ids=["reserved", "long", "many"],
)
def test_a_message_with_bad_properties_is_refused(place: GrpcPlace, fields: dict[str, object], sentence: str) -> None:
    """Sends: the properties of users have limits."""
    topic = place.create_topic()
    with pytest.raises(ClientRefused, match=re.escape(sentence)):
        send(place.start_producer(topic), topic, "refused", **fields)


@pytest.mark.uses("deliveryMs")
def test_a_delay_that_is_too_long_is_refused(place: GrpcPlace) -> None:
    """Delays: a day at most."""
    topic = place.create_topic("DELAY")
    in_two_days_ms = time.time_ns() // 1_000_000 + 2 * DAY_MS
    with pytest.raises(ClientRefused, match="the max delay time of message is too large, max is 86400000"):
        send(place.start_producer(topic), topic, "refused", deliveryMs=in_two_days_ms)


@pytest.mark.uses("recall")
@pytest.mark.parametrize(
    ("topic_type", "sentence"),
    [
        ("DELAY", "recall handle is invalid"),
        ("NORMAL", "TopicMessageType validate failed, the expected type is NORMAL, but actual type is DELAY"),
    ],
)
def test_a_bad_recall_is_refused(place: GrpcPlace, topic_type: TopicType, sentence: str) -> None:
    """Recalls: a handle that no server has given, and a topic without delays."""
    topic = place.create_topic(topic_type)
    with pytest.raises(ClientRefused, match=sentence):
        place.start_producer(topic).call("recall", topic=topic, handle="no-handle")


def test_a_bad_invisible_time_is_refused(place: GrpcPlace) -> None:
    """Invisible times of a receive: from ten seconds to twelve hours."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, "one")
    consumer = place.start_simple(topic)
    with pytest.raises(ClientRefused, match=r"the invisibleTime is too small\. min is 10000"):
        consumer.receive(invisible_ms=1_000)
    with pytest.raises(ClientRefused, match=r"the invisibleTime is too large\. max is 43200000"):
        consumer.receive(invisible_ms=DAY_MS)
    receive_all(consumer, 1)


@pytest.mark.uses("change")
def test_a_change_to_a_bad_invisible_time_is_refused(place: GrpcPlace) -> None:
    """Changed invisible time: twelve hours at most. The handle stays valid."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, "one")
    consumer = place.start_simple(topic)
    (held,) = receive_all(consumer, 1, acknowledge=False)
    with pytest.raises(ClientRefused, match=r"the invisibleTime is too large\. max is 43200000"):
        consumer.call("change", handle=held.handle, invisibleMs=DAY_MS)
    consumer.call("ack", handle=held.handle)


def test_a_bad_expression_of_sql_is_refused(place: GrpcPlace) -> None:
    """Filters of the type SQL92: an invalid expression."""
    topic = place.create_topic()
    consumer = place.start_simple(topic, "weight ==== 3", sql=True)
    with pytest.raises(ClientRefused, match="parse the consumer's subscription failed"):
        consumer.receive()
