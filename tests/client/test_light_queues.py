"""The names of light message queues and lite topics, and whose route leads to them."""

from __future__ import annotations

import pytest

from rmqpull_client import light_queues
from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError

CLUSTER = Connection(name_servers="127.0.0.1:9876")


@pytest.mark.parametrize(
    ("topic", "is_legal", "parent"),
    [
        ("%LMQ%orders-of-7", True, None),
        ("%LMQ%a.b:c$d", True, None),
        ("%LMQ%", False, None),
        ("%LMQ%a b", False, None),
        ("%LMQ%a,b", False, None),
        ("%LMQ%a/b", False, None),
        ("%LMQ%é", False, None),
        ("%LMQ%" + "x" * 240, True, None),
        ("%LMQ%" + "x" * 241, False, None),
        ("%LMQ%$chats$alice", True, "chats"),
        ("%LMQ%$chats$" + "a" * 64, True, "chats"),
        ("%LMQ%$chats$" + "a" * 65, False, None),
        ("%LMQ%$chats", False, None),
        ("%LMQ%$chats$", False, None),
        ("%LMQ%$$alice", False, None),
        ("%LMQ%$chats$alice$bob", False, None),
    ],
)
def test_names(topic: str, is_legal: bool, parent: str | None) -> None:
    assert light_queues.is_light(topic)
    assert light_queues.is_legal(topic) is is_legal
    assert light_queues.find_parent(topic) == parent


def test_a_lite_topic_has_the_queue_that_brokers_name() -> None:
    """LiteUtil.toLmqName of 5.5.0."""
    assert light_queues.name_lite_topic("chats", "alice") == "%LMQ%$chats$alice"


def test_the_route_is_that_of_the_parent_topic() -> None:
    named = Connection(name_servers="127.0.0.1:9876", parent_topic="orders")
    assert light_queues.find_route_topic(named, "%LMQ%of-7") == "orders"
    assert light_queues.find_route_topic(named, "%LMQ%$chats$alice") == "chats"
    assert light_queues.find_route_topic(named, "sales") == "sales"
    assert light_queues.find_route_topic(CLUSTER, "%LMQ%$chats$alice") == "chats"


def test_an_unknown_parent_topic_and_a_namespace_are_refused() -> None:
    with pytest.raises(OptionError, match=r"%LMQ%of-7 is a light message queue.*option parentTopic"):
        light_queues.find_route_topic(CLUSTER, "%LMQ%of-7")
    spaced = Connection(name_servers="127.0.0.1:9876", namespace="shop", parent_topic="orders")
    assert light_queues.find_route_topic(spaced, "sales") == "shop%sales"
    for topic in ("%LMQ%of-7", "%LMQ%$chats$alice"):
        with pytest.raises(OptionError, match="Remove option namespace"):
            light_queues.find_route_topic(spaced, topic)
