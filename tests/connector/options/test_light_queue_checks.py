"""Which options about light message queues and lite topics fit together."""

from __future__ import annotations

import re

import pytest

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.errors import OptionError

CLUSTER = {"nameServers": "127.0.0.1:9876", "topic": "orders"}
Given = dict[str, str]

LIGHT: list[tuple[Given, str]] = [
    (
        {"topic": "%LMQ%a"},
        "Option parentTopic is missing: %LMQ%a is a light message queue, which has no route of its own",
    ),
    ({"parentTopic": "orders"}, "Option parentTopic is orders. It must be an ordinary topic"),
    ({"topic": "%LMQ%$orders$a", "parentTopic": "orders"}, "lite topics need no parentTopic."),
    ({"topic": "%LMQ%a", "parentTopic": "%LMQ%b"}, "Option parentTopic is %LMQ%b. It must be an ordinary topic"),
    ({"topic": "orders,sales", "liteTopics": "a"}, "Option liteTopics names lite topics of one topic."),
    ({"topic": "%LMQ%$orders$a", "liteTopics": "a"}, "Options liteTopics and topic both name light message queues."),
    ({"topic": "%LMQ%a", "parentTopic": "orders", "namespace": "shop"}, "which cannot be in a namespace"),
    ({"liteTopics": "a", "namespace": "shop"}, "Remove option namespace."),
]
"""Light message queues that cannot be read from a cluster as the options say."""
OF_QUEUES: list[tuple[Given, str]] = [
    ({"topicPattern": "%LMQ%.*"}, "servers do not list light message queues as topics"),
    ({"topicPattern": "orders.*", "liteTopics": "a"}, "Option liteTopics names lite topics of one topic."),
    ({"assign": '{"%LMQ%$orders$a":{"broker-a":[0,1]}}'}, "Option assign names %LMQ%$orders$a/broker-a/1, but a light"),
    ({"assign": '{"%LMQ%a":{"broker-a":[0]}}'}, "Option parentTopic is missing: %LMQ%a is a light message queue"),
]


@pytest.mark.parametrize(("given", "refusal"), [*((CLUSTER | one, text) for one, text in LIGHT)])
def test_light_queues_that_cannot_be_found_are_refused(given: Given, refusal: str) -> None:
    with pytest.raises(OptionError, match=re.escape(refusal)):
        SourceOptions.from_options(given)


@pytest.mark.parametrize(("given", "refusal"), OF_QUEUES)
def test_light_queues_are_named_one_by_one(given: Given, refusal: str) -> None:
    with pytest.raises(OptionError, match=re.escape(refusal)):
        SourceOptions.from_options({"nameServers": "127.0.0.1:9876"} | given)


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        ({"topic": "chats", "liteTopics": "alice, bob"}, ["%LMQ%$chats$alice", "%LMQ%$chats$bob"]),
        ({"topic": "chats,%LMQ%$chats$alice"}, ["chats", "%LMQ%$chats$alice"]),
        ({"topic": "%LMQ%a", "parentTopic": "orders"}, ["%LMQ%a"]),
        ({"assign": '{"%LMQ%a":{"broker-a":[0]}}', "parentTopic": "orders"}, ["%LMQ%a"]),
    ],
)
def test_light_queues_are_selected(given: Given, topics: list[str]) -> None:
    options = SourceOptions.from_options({"nameServers": "127.0.0.1:9876"} | given)
    assert options.selection.required_names == topics
    assert options.connection.parent_topic == given.get("parentTopic", "")


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"topic": "orders,%LMQ%a", "parentTopic": "orders"}, "%LMQ%a, a light message queue"),
        ({"topic": "orders", "liteTopics": "alice"}, "%LMQ%$orders$alice, a light message queue"),
        ({"topic": "orders", "parentTopic": "orders"}, "light message queues"),
    ],
)
def test_only_clusters_have_light_queues(given: Given, what: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options({"endpoints": "127.0.0.1:8081"} | given)
    assert str(refused.value) == f"Options ask for {what}. Only the brokers of a cluster have them: set nameServers."


@pytest.mark.parametrize("servers", [{"endpoints": "127.0.0.1:8081"}, {"nameServers": "127.0.0.1:9876"}])
@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("topic", {"topic": "%LMQ%a"}),
        ("deadLetterTopic", {"topic": "orders", "onInvalidRow": "deadLetter", "deadLetterTopic": "%LMQ%a"}),
    ],
)
def test_nothing_is_written_to_them(servers: Given, name: str, given: Given) -> None:
    with pytest.raises(OptionError) as refused:
        SinkOptions.from_options(servers | given)
    assert str(refused.value) == (
        f"Option {name} is %LMQ%a, a light message queue. The sink cannot write to them: name a topic."
    )
