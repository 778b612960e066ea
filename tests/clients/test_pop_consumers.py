"""Apache's push consumer 5.5.0 that pops, as the broker was told: members share messages, not queues."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.json_dialect import write_json
from tests.clients.programs.java.many_clients import OneClient
from tests.harness.client_servers import BROKER, Place, bodies_of
from tests.harness.waiting import wait_until

INVISIBLE_MS = 10_000
LONG_INVISIBLE_MS = 300_000
"""Longer than any scenario, so that nothing is redelivered."""
RETRY_WITHIN_S = 120.0
"""Java's client makes a refused message visible again after 10 s, and Apache's broker takes as long once more."""


@pytest.fixture(autouse=True)
def _releases_that_pop(place: Place) -> None:
    if place.release == "4.9":
        pytest.skip("4.9.8 cannot leave the shares of queues to the broker")


def start(place: Place, topic: str, invisible_ms: int = LONG_INVISIBLE_MS, **options: Any) -> OneClient:
    """Starts a member of a group that pops."""
    mode = {"topic": topic, "consumerGroup": place.group, "mode": "POP", "popShareQueueNum": 0}
    for address in place.administration.find_masters().values():
        place.administration.call(address, RequestCode.SET_MESSAGE_REQUEST_MODE, body=write_json(mode))
    return place.start("push", topic=topic, popInvisibleMs=invisible_ms, **options)


def find_offsets(place: Place, topic: str, queues: int) -> dict[int, int | None]:
    """Returns the progress of the group in each queue."""
    return {queue: place.administration.query_offset(place.group, topic, queue) for queue in range(queues)}


def wait_for_pops(place: Place, topic: str, count: int) -> None:
    """Returns when so many pops of all queues wait on the broker."""
    (address,) = place.administration.find_masters().values()
    fields = {"consumerGroup": place.group, "topic": topic, "queueId": -1}

    def count_waiting() -> int:
        response = place.administration.call(address, RequestCode.POLLING_INFO, fields)
        return int(response.fields["pollingNum"])

    wait_until(lambda: count_waiting() == count, f"{count} waiting pops")


@pytest.mark.small
def test_a_member_pops_the_messages_of_all_queues(place: Place) -> None:
    """Pop: a member gets the messages of all queues, waits for new ones, and acknowledges each."""
    topic = place.create_topic(queues=4)
    place.send(topic, *map(str, range(20)))
    consumer = start(place, topic)
    place.read(consumer, 20)
    wait_for_pops(place, topic, 1)
    place.send(topic, *map(str, range(20, 40)))
    assert bodies_of(place.read(consumer, 40)) == sorted(map(str, range(40)))
    assert all(one.attempts == 0 and "POP_CK" in one.properties for one in consumer.consumed)
    offsets = dict.fromkeys(range(4), 10)
    wait_until(lambda: find_offsets(place, topic, 4) == offsets, "acknowledged")


def test_members_that_pop_share_the_messages_of_one_queue(place: Place) -> None:
    """Pop: two members consume one queue, and each message goes to one of them."""
    topic = place.create_topic()
    members = [start(place, topic), start(place, topic)]
    wait_for_pops(place, topic, 2)
    place.send(topic, *map(str, range(40)))
    wait_until(lambda: sum(len(one.consumed) for one in members) >= 40, "all consumed")
    assert all(one.consumed for one in members)
    assert bodies_of(read for one in members for read in one.consumed) == sorted(map(str, range(40)))


@pytest.mark.small
@pytest.mark.parametrize(
    ("kind", "expression", "expected"),
    [("TAG", "red || blue", ["1", "3", "5"]), ("SQL92", "weight > 1 AND TAGS <> 'green'", ["3", "5"])],
)
def test_a_member_pops_what_its_filter_lets_through(
    place: Place, kind: str, expression: str, expected: list[str]
) -> None:
    """Pop: filters of the types TAG and SQL92, for messages of before and of later."""
    topic = place.create_topic()
    for weight, tags in enumerate(("red", "green", "blue"), start=1):
        place.send(topic, str(weight), tags=tags, properties={"weight": str(weight)})
    consumer = start(place, topic, expression=expression, expressionType=kind)
    place.read(consumer, len(expected) - 1)
    wait_for_pops(place, topic, 1)
    place.send(topic, "4", tags="green", properties={"weight": "4"})
    place.send(topic, "5", tags="blue", properties={"weight": "5"})
    assert bodies_of(place.read(consumer, len(expected))) == expected


def test_a_refused_message_is_popped_again(place: Place) -> None:
    """Pop: RECONSUME_LATER makes the message invisible for longer. Then it is redelivered with its attempts counted."""
    topic = place.create_topic()
    (sent,) = place.send(topic, "one", tags="red", keys="k")
    consumer = start(place, topic, refusals=1)
    wait_until(lambda: len(consumer.consumed) == 2, "consumed twice", RETRY_WITHIN_S)
    first, second = consumer.consumed
    assert (first.attempts, second.attempts) == (0, 1)
    assert [(one.body, one.stored["topic"], one.stored["msgId"]) for one in (first, second)] == (
        [("one", topic, sent["msgId"])] * 2
    )
    kinds = [one.properties["POP_CK"].split(" ")[4] for one in (first, second)]
    assert kinds == ["0", "1"]
    assert first.properties["1ST_POP_TIME"] < second.properties["POP_CK"].split(" ")[1]


def test_a_member_that_dies_loses_nothing(place: Place) -> None:
    """Pop: what a killed member had and did not acknowledge comes to the other, after its invisible time."""
    topic = place.create_topic(queues=2)
    survivor = start(place, topic, INVISIBLE_MS)
    doomed = place.start_jvm()
    victim = place.start("push", process=doomed, topic=topic, popInvisibleMs=INVISIBLE_MS)
    wait_for_pops(place, topic, 2)
    place.send(topic, *map(str, range(20)))
    wait_until(lambda: len(victim.consumed) > 0, "consumed by both")
    place.send(topic, *map(str, range(20, 40)))
    doomed.kill()
    place.send(topic, *map(str, range(40, 60)))
    expected = set(map(str, range(60)))
    wait_until(
        lambda: {read.body for one in (survivor, victim) for read in one.consumed} == expected,
        "each message consumed",
        RETRY_WITHIN_S,
    )


def test_an_ordered_consumer_of_such_a_group_pulls(place: Place) -> None:
    """In order, a consumer of a group that should pop locks its queue and pulls anyway."""
    topic = place.create_topic()
    consumer = start(place, topic, ordered=True, refusals=1)
    place.send(topic, "1", "2", "3", broker=BROKER)
    read = place.read(consumer, 6)
    assert [(one.body, one.attempts) for one in read] == [("1", 0), ("1", 1), ("2", 0), ("2", 1), ("3", 0), ("3", 1)]
    assert not any("POP_CK" in one.properties for one in read)
    place.wait_for_offset(consumer, topic, 3)
