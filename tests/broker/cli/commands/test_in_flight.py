"""``rmqpull-broker in-flight``, and the numbers of messages in flight that other commands show."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from rmqpull_broker.cli.commands.in_flight import COUNT_MAX
from rmqpull_broker.core.popping.in_flight_listing import LISTED_MAX
from rmqpull_broker.testing import RunningBroker
from tests.harness.cli import RunCommand, RunJson, error_of, table_of
from tests.harness.receiver import Receiver


@pytest.fixture(autouse=True)
def readers(broker: RunningBroker) -> Iterator[Receiver]:
    """Group "readers" has received two of four messages of topic "single", and one of "orders"."""
    with Receiver(broker.endpoints, topic="single") as receiver, Receiver(broker.endpoints) as another:
        receiver.client.send_bodies("single", b"a", b"b", b"c", b"d", tag="paid", keys=["k"])
        receiver.client.send_bodies("orders", b"e")
        receiver.receive(2, invisible_ms=90_000)
        another.receive()
        yield receiver


def test_messages_in_flight_are_listed_by_topic(run_json: RunJson) -> None:
    first, second = run_json("in-flight", "single")
    shown = ("topic", "group", "queue", "queueOffset", "msgId", "tags", "keys", "attempt")
    assert [first[name] for name in shown] == ["single", "readers", "broker-a/0", 0, "m", "paid", ["k"], 1]
    assert second["queueOffset"] == 1
    delivered, visible = (datetime.fromisoformat(first[name].replace("Z", "")) for name in ("deliveredAt", "visibleAt"))
    assert visible - delivered == timedelta(seconds=90)


def test_messages_of_all_topics_are_listed_without_one(run: RunCommand) -> None:
    heads, *rows = table_of(run("in-flight"))
    assert heads[:4] == ["TOPIC", "GROUP", "QUEUE", "QUEUE OFFSET"]
    assert sorted(row[0] for row in rows) == ["orders", "single", "single"]


def test_an_embedded_broker_lists_them_too(broker: RunningBroker) -> None:
    found = broker.in_flight("readers")
    assert sorted((each.in_flight.queue.topic, each.stored.message.body) for each in found) == [
        ("orders", b"e"),
        ("single", b"a"),
        ("single", b"b"),
    ]
    assert list(broker.in_flight()) == list(found)
    assert broker.in_flight("others") == []


def test_a_list_is_limited_and_says_so(run: RunCommand) -> None:
    result = run("in-flight", "single", "--newest", "1")
    assert len(table_of(result)) == 2
    assert result.stderr == "showed the first 1 of 2 messages in flight\n"
    assert COUNT_MAX == LISTED_MAX


@pytest.mark.parametrize("arguments", [["--queue", "1"], ["--queue", "broker-b/0"], ["--group", "others"]])
def test_nothing_in_flight_is_no_failure(run: RunCommand, arguments: list[str]) -> None:
    run("group", "create", "others")
    result = run("in-flight", "single", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "no message is in flight\n")


def test_an_acknowledged_message_is_no_longer_listed(run_json: RunJson, readers: Receiver) -> None:
    readers.ack(*readers.receive(1))
    assert [row["queueOffset"] for row in run_json("in-flight", "single")] == [0, 1]


def test_lag_and_groups_count_what_is_in_flight(run_json: RunJson) -> None:
    rows = run_json("lag", "--topic", "single")
    assert [(row["group"], row["lag"], row["inFlight"]) for row in rows] == [("readers", 2, 2)]
    assert [row["inFlight"] for row in run_json("lag", "--queues", "--topic", "single")] == [2]
    (group,) = run_json("groups")
    assert (group["topics"], group["lag"], group["inFlight"]) == (["orders", "single"], 2, 3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none"], "topic[none] not exist"),
        (["--group", "none"], "Group none not exist!"),
    ],
)
def test_an_impossible_list_is_refused(run: RunCommand, arguments: list[str], sentence: str) -> None:
    assert sentence in error_of(run("in-flight", *arguments))
