"""Apache's push consumer: clustering and broadcasting, order, retries, dead letters, filters, resets."""

from __future__ import annotations

import pytest

from tests.harness.client_servers import BROKER, Place, bodies_of
from tests.harness.waiting import wait_until


@pytest.mark.small
def test_members_of_a_group_share_the_messages(place: Place) -> None:
    """Clustering: each message goes to one member of the group, and offsets are stored on the broker."""
    topic = place.create_topic(queues=4)
    members = [place.start("push", topic=topic) for _ in range(2)]
    wait_until(lambda: [len(one.call("queues", topic=topic)) for one in members] == [2, 2], "shared equally")
    bodies = [str(number) for number in range(40)]
    place.send(topic, *bodies)
    wait_until(lambda: sum(len(one.consumed) for one in members) >= 40, "all consumed")
    assert bodies_of(read for one in members for read in one.consumed) == sorted(bodies)
    assert [{read.queue for read in one.consumed} for one in members] == [{0, 1}, {2, 3}]
    for queue in range(4):
        place.wait_for_offset(members[queue // 2], topic, 10, queue)


def test_a_group_goes_on_where_it_stopped(place: Place) -> None:
    """A group whose member returns gets the messages that were sent meanwhile, and no others."""
    topic = place.create_topic()
    place.send(topic, "before")
    first = place.start("push", topic=topic)
    place.read(first, 1)
    place.shut_down(first)
    place.send(topic, "meanwhile")
    second = place.start("push", topic=topic)
    place.send(topic, "after")
    assert bodies_of(place.read(second, 2)) == ["after", "meanwhile"]


@pytest.mark.small
def test_each_member_of_a_broadcasting_group_gets_all_messages(place: Place) -> None:
    """Broadcasting: each member gets each message, and the broker has no offsets of the group."""
    topic = place.create_topic(queues=2)
    members = [place.start("push", topic=topic, broadcasting=True) for _ in range(2)]
    place.send(topic, "1", "2", "3", "4")
    assert [bodies_of(place.read(one, 4)) for one in members] == [["1", "2", "3", "4"]] * 2
    assert place.administration.query_offset(place.group, topic, 0) is None


@pytest.mark.small
def test_an_ordered_consumer_keeps_the_order_when_it_refuses(place: Place) -> None:
    """In order: a refused message is redelivered before the next one of its queue, with its attempts counted."""
    topic = place.create_topic()
    place.send(topic, "1", "2", "3", broker=BROKER)
    consumer = place.start("push", topic=topic, ordered=True, refusals=2)
    read = place.read(consumer, 9)
    assert [one.body for one in read] == ["1", "1", "1", "2", "2", "2", "3", "3", "3"]
    assert [one.attempts for one in read] == [0, 1, 2] * 3
    place.wait_for_offset(consumer, topic, 3)


def test_members_in_order_lock_their_queues(place: Place) -> None:
    """In order with two members: each queue is consumed by one member, in the order of its messages."""
    topic = place.create_topic(queues=2)
    members = [place.start("push", topic=topic, ordered=True) for _ in range(2)]
    wait_until(lambda: [len(one.call("queues", topic=topic)) for one in members] == [1, 1], "shared equally")
    for queue in range(2):
        place.send(topic, *(str(number) for number in range(10)), broker=BROKER, queue=queue)
    for queue, member in enumerate(members):
        read = place.read(member, 10)
        assert [(one.queue, one.body) for one in read] == [(queue, str(number)) for number in range(10)]


@pytest.mark.small
def test_a_refused_message_is_redelivered_with_its_attempts_counted(place: Place) -> None:
    """Retry: RECONSUME_LATER has the message redelivered, from the retry topic and with the same id."""
    topic = place.create_topic()
    consumer = place.start("push", topic=topic, refusals=2)
    (sent,) = place.send(topic, "one", tags="red", keys="k")
    read = place.read(consumer, 3)
    assert [one.attempts for one in read] == [0, 1, 2]
    assert [(one.body, one.stored["topic"], one.stored["msgId"]) for one in read] == [("one", topic, sent["msgId"])] * 3
    assert [one.properties.get("RETRY_TOPIC") for one in read] == [None, topic, topic]
    assert [one.properties.get("ORIGIN_MESSAGE_ID") for one in read] == [None, sent["offsetMsgId"], sent["offsetMsgId"]]
    assert [one.properties.get("DELAY") for one in read] == [None, "3", "4"]
    place.wait_for_offset(consumer, f"%RETRY%{place.group}", 2)


@pytest.mark.small
def test_a_message_that_is_refused_too_often_becomes_a_dead_letter(place: Place) -> None:
    """Dead letters: after maxReconsumeTimes the message is in the group's dead-letter topic."""
    topic = place.create_topic()
    consumer = place.start("push", topic=topic, refusals=9, maxReconsumeTimes=1)
    (sent,) = place.send(topic, "one", tags="red")
    assert [one.attempts for one in place.read(consumer, 2)] == [0, 1]
    dead_letters = f"%DLQ%{place.group}"
    wait_until(lambda: bool(place.administration.find_route(dead_letters)), "a dead-letter topic")
    (dead,) = place.read_topic(dead_letters, 1)
    assert (dead.body, dead.properties["TAGS"], dead.properties["RETRY_TOPIC"]) == ("one", "red", topic)
    assert dead.properties["ORIGIN_MESSAGE_ID"] == sent["offsetMsgId"]
    assert len(consumer.consumed) == 2


def test_an_ordered_consumer_gives_up_after_its_attempts(place: Place) -> None:
    """In order, after maxReconsumeTimes the message becomes a dead letter, and the queue continues."""
    topic = place.create_topic()
    place.send(topic, "1", "2", broker=BROKER)
    consumer = place.start("push", topic=topic, ordered=True, refusals=9, maxReconsumeTimes=1)
    place.wait_for_offset(consumer, topic, 2)
    assert [(one.body, one.attempts) for one in consumer.consumed] == [("1", 0), ("1", 1), ("2", 0), ("2", 1)]
    assert bodies_of(place.read_topic(f"%DLQ%{place.group}", 2)) == ["1", "2"]


@pytest.mark.small
@pytest.mark.parametrize(
    ("kind", "expression", "expected"),
    [
        ("TAG", "red || blue", ["1", "3"]),
        ("SQL92", "weight > 1 AND TAGS <> 'green'", ["3"]),
        ("SQL92", "weight BETWEEN 2 AND 3 OR weight IS NULL", ["2", "3", "4"]),
    ],
)
def test_a_member_gets_what_its_filter_lets_through(
    place: Place, kind: str, expression: str, expected: list[str]
) -> None:
    """Filters of the types TAG and SQL92, evaluated by the broker."""
    topic = place.create_topic()
    for weight, tags in enumerate(("red", "green", "blue"), start=1):
        place.send(topic, str(weight), tags=tags, properties={"weight": str(weight)})
    place.send(topic, "4")
    consumer = place.start("push", topic=topic, expression=expression, expressionType=kind)
    assert bodies_of(place.read(consumer, len(expected))) == expected
    place.send(topic, "5", tags="blue", properties={"weight": "3"})
    assert bodies_of(place.read(consumer, len(expected) + 1)) == [*expected, "5"]


@pytest.mark.small
def test_a_reset_while_members_run_takes_effect_at_once(place: Place) -> None:
    """Reset of offsets, as `mqadmin` asks for it: running members consume again from there."""
    topic = place.create_topic()
    consumer = place.start("push", topic=topic)
    place.send(topic, "1", "2", "3")
    place.read(consumer, 3)
    place.wait_for_offset(consumer, topic, 3)
    place.administration.reset_offsets(place.group, topic, timestamp_ms=0)
    place.send(topic, "4")
    wait_until(lambda: bodies_of(consumer.consumed) == ["1", "1", "2", "2", "3", "3", "4"], "consumed again")
    place.wait_for_offset(consumer, topic, 4)


def test_a_new_group_starts_at_the_beginning_of_a_young_queue(place: Place) -> None:
    """CONSUME_FROM_LAST_OFFSET starts at the beginning while the first message of a queue is still in memory."""
    topic = place.create_topic()
    place.send(topic, "before")
    consumer = place.start("push", topic=topic, consumeFromWhere="CONSUME_FROM_LAST_OFFSET")
    place.send(topic, "after")
    assert bodies_of(place.read(consumer, 2)) == ["after", "before"]
