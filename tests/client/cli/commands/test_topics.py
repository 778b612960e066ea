"""``rmqpull topics`` and ``topic``: what exists, and how much is in it."""

from __future__ import annotations

from rmqpull_broker.testing import RunningBroker
from tests.harness.cli import RunCommand, RunJson, error_of, table_of


def test_topics_are_listed_with_their_queues_and_messages(broker: RunningBroker, run: RunCommand) -> None:
    broker.send("orders", b"1", b"2", b"3")
    assert table_of(run("topics")) == [
        ["TOPIC", "BROKERS", "QUEUES", "MESSAGES"],
        ["orders", "1", "2", "3"],
        ["single", "1", "1", "0"],
    ]
    assert table_of(run("topics", "--names")) == [["TOPIC"], ["orders"], ["single"]]


def test_a_topic_shows_its_queues_and_rates(broker: RunningBroker, run_json: RunJson) -> None:
    broker.send("orders", b"1", b"2", b"3")
    shown = run_json("topic", "orders", "--span", "10s")
    assert (shown["topic"], shown["messages"], shown["rate"]) == ("orders", 3, 0.3)
    assert [(own["queueId"], own["minOffset"], own["maxOffset"], own["rate"]) for own in shown["queues"]] == [
        (0, 0, 2, 0.2),
        (1, 0, 1, 0.1),
    ]
    assert all(own["newest"].endswith("Z") for own in shown["queues"])


def test_an_empty_queue_has_no_newest_message(run: RunCommand) -> None:
    heads, row = table_of(run("topic", "single"))
    assert heads == ["BROKER NAME", "QUEUE ID", "MIN OFFSET", "MAX OFFSET", "MESSAGES", "RATE", "NEWEST"]
    assert row == ["broker-a", "0", "0", "0", "0", "0.0", "-"]


def test_an_unknown_topic_and_an_empty_span_are_refused(run: RunCommand) -> None:
    assert "topic none does not exist at" in error_of(run("topic", "none"))
    assert "--span is 0" in error_of(run("topic", "orders", "--span", "0s"), 2)
