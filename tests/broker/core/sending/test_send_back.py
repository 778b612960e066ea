"""Messages that could not be consumed: retries and dead letters (rules 1.14, 3.10.3, 6.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import create_topic, delete_topic, put_topic
from rmqpull_broker.core.errors import FAQ, BrokerError, MessageCorrupted
from rmqpull_broker.core.model import (
    PERM_READ,
    GroupConfig,
    Message,
    MessageQueue,
    StoredMessage,
    TopicConfig,
)
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.send_back import SendBack
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import GroupPut
from tests.harness.core import CoreHarness

ORDERS = MessageQueue("orders", "broker-a", 0)
RETRY = MessageQueue("%RETRY%readers", "broker-a", 0)
DEAD = MessageQueue("%DLQ%readers", "broker-a", 0)


def send_back(
    core: CoreHarness, queue: MessageQueue = ORDERS, offset: int = 0, level: int = 0, **options: int
) -> str | None:
    """Sends a message back, and returns the topic in which it is stored."""
    request = SendBack("readers", queue, offset, level, options.get("times_max"))
    sent = core.run(lambda draft: core.sender.send_back(draft, request, core.now_ms))
    return None if sent is None else sent.queue.topic


def deliver_all(core: CoreHarness) -> None:
    core.now_ms += 7_200_000
    core.run(lambda draft: deliver_due(draft, core.now_ms, "store"))


def last(core: CoreHarness, queue: MessageQueue) -> StoredMessage:
    return core.rows(queue)[-1]


@pytest.fixture
def consumer(core: CoreHarness) -> CoreHarness:
    """A broker with one message in ``orders`` that the group ``readers`` has pulled."""
    core.topic()
    core.send(Message(b"x", "ID", "red", ("k",), {"a": "b"}, born_timestamp_ms=7, born_host="home"))
    return core


def test_a_returned_message_is_redelivered_in_the_groups_retry_topic(consumer: CoreHarness) -> None:
    assert send_back(consumer) == "SCHEDULE_TOPIC_XXXX"
    assert consumer.rows(RETRY) == []
    deliver_all(consumer)
    copy = last(consumer, RETRY)
    assert replace(copy.message, system_properties={}) == last(consumer, ORDERS).message
    assert dict(copy.message.system_properties) == {
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "ID",
        "WAIT": "false",
        "DELAY": "3",
        "REAL_TOPIC": "%RETRY%readers",
        "REAL_QID": "0",
    }
    assert (copy.reconsume_times, copy.store_timestamp_ms) == (1, 7_201_000)


RETRIES = [3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18]


def test_sixteen_retries_wait_longer_and_longer_and_the_next_is_a_dead_letter(consumer: CoreHarness) -> None:
    """The levels of rules 1.14: 10 s, 30 s, 1 m ... 2 h."""
    levels = []
    queue, offset = ORDERS, 0
    for _ in range(16):
        assert send_back(consumer, queue, offset) == "SCHEDULE_TOPIC_XXXX"
        deliver_all(consumer)
        queue, offset = RETRY, last(consumer, RETRY).queue_offset
        levels.append(int(last(consumer, RETRY).message.system_properties["DELAY"]))
    assert levels == RETRIES
    assert send_back(consumer, queue, offset) == "%DLQ%readers"
    dead = last(consumer, DEAD)
    assert dead.reconsume_times == 17
    assert dict(dead.message.system_properties) == {
        "RETRY_TOPIC": "orders",
        "ORIGIN_MESSAGE_ID": "ID",
        "WAIT": "false",
        "DELAY": "0",
        "REAL_TOPIC": "%RETRY%readers",
        "REAL_QID": "0",
    }


@pytest.mark.parametrize(
    ("level", "times_max", "group_max", "topic", "delay"),
    [
        (0, None, 16, "SCHEDULE_TOPIC_XXXX", "3"),
        (1, None, 16, "SCHEDULE_TOPIC_XXXX", "1"),
        (18, None, 16, "SCHEDULE_TOPIC_XXXX", "18"),
        (19, None, 16, "SCHEDULE_TOPIC_XXXX", "18"),
        ((1 << 31) - 1, None, 16, "SCHEDULE_TOPIC_XXXX", "18"),
        (-1, None, 16, "%DLQ%readers", "0"),
        (0, 0, 16, "%DLQ%readers", "0"),
        (5, 0, 16, "%DLQ%readers", "0"),
        (0, None, 0, "%DLQ%readers", "0"),
        (0, 1, 0, "SCHEDULE_TOPIC_XXXX", "3"),
        (0, None, -1, "%DLQ%readers", "0"),
    ],
)
def test_the_level_and_the_limit_say_where_a_message_goes(
    consumer: CoreHarness, level: int, times_max: int | None, group_max: int, topic: str, delay: str
) -> None:
    consumer.run(lambda draft: put_group(draft, GroupConfig("readers", retry_max_times=group_max)))
    request = SendBack("readers", ORDERS, 0, level, times_max)
    sent = consumer.run(lambda draft: consumer.sender.send_back(draft, request, 1_000))
    assert sent is not None
    assert (sent.queue.topic, sent.row.message.system_properties["DELAY"]) == (topic, delay)


def test_a_seventeenth_retry_waits_as_long_as_the_last(consumer: CoreHarness) -> None:
    consumer.run(lambda draft: create_topic(draft, TopicConfig("%RETRY%readers", 1, 1)))
    consumer.send(retry(16), topic="%RETRY%readers")
    assert send_back(consumer, RETRY, times_max=99) == "SCHEDULE_TOPIC_XXXX"
    assert len(consumer.rows(MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", 17))) == 1


def test_a_group_without_retry_queues_gets_nothing_back(consumer: CoreHarness) -> None:
    consumer.run(lambda draft: put_group(draft, GroupConfig("readers", retry_queue_nums=0)))
    assert send_back(consumer) is None
    assert list(consumer.state.topics) == ["orders"]


def test_what_is_missing_is_created_on_the_first_return(consumer: CoreHarness) -> None:
    consumer.run(lambda draft: put_group(draft, GroupConfig("readers", retry_queue_nums=3)))
    send_back(consumer, level=-1)
    shapes = {name: (topic.read_queue_nums, topic.perm) for name, topic in consumer.state.topics.items()}
    assert shapes == {"orders": (1, 6), "%RETRY%readers": (3, 6), "%DLQ%readers": (1, 6)}
    ids = {topic.creation_id for topic in consumer.state.topics.values()}
    assert len(ids) == 3


def test_retries_are_spread_over_the_groups_retry_queues_by_chance(consumer: CoreHarness) -> None:
    asked: list[int] = []

    def draw(count: int) -> int:
        asked.append(count)
        return count - 1

    consumer.sender = replace(consumer.sender, selector=QueueSelector(draw))
    consumer.run(lambda draft: put_group(draft, GroupConfig("readers", retry_queue_nums=3)))
    send_back(consumer)
    deliver_all(consumer)
    assert asked == [3]
    assert len(consumer.rows(RETRY._replace(queue_id=2))) == 1


def test_a_level_wins_over_the_delivery_time_that_the_message_had(core: CoreHarness) -> None:
    core.topic(name="%RETRY%others")
    core.send(Message(b"x", "ID", delivery_timestamp_ms=500), topic="%RETRY%others")
    assert send_back(core, MessageQueue("%RETRY%others", "broker-a", 0), level=2) == "SCHEDULE_TOPIC_XXXX"
    deliver_all(core)
    assert last(core, RETRY).message.delivery_timestamp_ms is None


def without_creation(core: CoreHarness) -> None:
    core.state.properties = BrokerProperties(auto_create_subscription_group=False)


def read_only(core: CoreHarness) -> None:
    core.state.properties = BrokerProperties(broker_permission=PERM_READ)


def retries_read_only(core: CoreHarness) -> None:
    core.run(lambda draft: create_topic(draft, TopicConfig("%RETRY%readers", 1, 1)))
    core.run(lambda draft: put_topic(draft, TopicConfig("%RETRY%readers", 1, 1, perm=PERM_READ)))


def long_group(core: CoreHarness) -> None:
    """A group of an old data directory: up to 5.4, names had up to 255 characters."""
    core.state.apply([GroupPut(GroupConfig("g" * 249))])


def nothing(core: CoreHarness) -> None:
    pass


READERS = SendBack("readers", ORDERS, 0)


@pytest.mark.parametrize(
    ("arrange", "request_", "response_code", "remark"),
    [
        (without_creation, READERS, 26, f"subscription group not exist, readers {FAQ}"),
        (nothing, replace(READERS, group="g" * 121), 26, f"subscription group not exist, {'g' * 121} {FAQ}"),
        (nothing, replace(READERS, group="a b"), 26, f"subscription group not exist, a b {FAQ}"),
        (read_only, READERS, 16, "the broker[127.0.0.1:8081] sending message is forbidden"),
        (retries_read_only, READERS, 16, "the topic[%RETRY%readers] sending message is forbidden"),
        (nothing, replace(READERS, queue_offset=1), 1, "look message by offset failed, 1"),
        (nothing, replace(READERS, queue_offset=-1), 1, "look message by offset failed, -1"),
        (nothing, replace(READERS, queue_offset=1, physical_offset=99), 1, "look message by offset failed, 99"),
        (nothing, replace(READERS, queue=ORDERS._replace(topic="none")), 1, "look message by offset failed, 0"),
        (long_group, replace(READERS, group="g" * 249), 1, "MESSAGE_ILLEGAL"),
    ],
)
def test_a_return_is_refused_by_the_rows_of_the_table(
    consumer: CoreHarness, arrange: Callable[[CoreHarness], None], request_: SendBack, response_code: int, remark: str
) -> None:
    arrange(consumer)
    topics = dict(consumer.state.topics)
    with pytest.raises(BrokerError) as refusal:
        consumer.run(lambda draft: consumer.sender.send_back(draft, request_, 1_000))
    assert (refusal.value.response_code, str(refusal.value)) == (response_code, remark)
    assert consumer.state.topics == topics


def test_the_longest_group_that_retries_has_248_characters(consumer: CoreHarness) -> None:
    consumer.state.apply([GroupPut(GroupConfig("g" * 248))])
    request = replace(READERS, group="g" * 248)
    assert consumer.run(lambda draft: consumer.sender.send_back(draft, request, 1_000)) is not None


def test_a_message_of_a_topic_that_is_deleted_in_the_same_draft_is_gone(consumer: CoreHarness) -> None:
    draft = Draft(consumer.state)
    delete_topic(draft, "orders")
    draft.end_command()
    with pytest.raises(BrokerError, match="look message by offset failed, 0"):
        consumer.sender.send_back(draft, READERS, 1_000)


# --- sends to the retry topic itself ---------------------------------------------------------------------------------


def retry(times: int, **fields: object) -> Message:
    properties = {"RECONSUME_TIME": str(times), "RETRY_TOPIC": "orders"}
    return replace(Message(b"x", "ID", system_properties=properties), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("times", "in_order", "queue"), [(0, False, RETRY), (16, False, RETRY), (17, False, DEAD), (0, True, DEAD)]
)
def test_a_message_sent_to_a_retry_topic_is_a_dead_letter_above_the_limit_or_in_an_ordered_group(
    core: CoreHarness, times: int, in_order: bool, queue: MessageQueue
) -> None:
    core.topic(name="%RETRY%readers")
    seen = []

    def consumes_in_order(group: str, now_ms: int) -> bool:
        seen.append((group, now_ms))
        return in_order

    core.sender = replace(core.sender, consumes_in_order=consumes_in_order)
    (row,) = core.send(retry(times), topic="%RETRY%readers")
    assert core.rows(queue) == [row]
    assert seen == [("readers", 1_000)]
    assert row.reconsume_times == times
    expected = {"RETRY_TOPIC": "orders"} if queue == RETRY else {"RETRY_TOPIC": "orders", "DELAY": "-1"}
    assert dict(row.message.system_properties) == expected


def test_retries_and_dead_letters_are_of_any_type(core: CoreHarness) -> None:
    for topic in ("%RETRY%readers", "%DLQ%readers"):
        core.topic(name=topic)
        core.send(retry(0, message_group="g"), topic=topic)
        core.send(retry(0, delivery_timestamp_ms=5), topic=topic)
        assert len(core.rows(MessageQueue(topic, "broker-a", 0))) == 2


def test_a_retry_to_a_group_that_cannot_be_is_refused(core: CoreHarness) -> None:
    core.topic(name="%RETRY%readers")
    without_creation(core)
    with pytest.raises(BrokerError, match=r"^subscription group not exist, readers \nSee ") as refusal:
        core.send(retry(0), topic="%RETRY%readers")
    assert refusal.value.code == "CONSUMER_GROUP_NOT_FOUND"


def test_several_retries_in_one_request_are_refused(core: CoreHarness) -> None:
    core.topic(name="%RETRY%readers")
    with pytest.raises(MessageCorrupted, match=r"^batch request does not support retry group %RETRY%readers$"):
        core.send(retry(0), retry(0), topic="%RETRY%readers")


def test_a_retry_may_be_a_half_message_only_at_first(core: CoreHarness) -> None:
    core.topic(name="%RETRY%readers")
    core.send(retry(0, transactional=True), topic="%RETRY%readers")
    assert len(core.state.halves) == 1
    again = retry(1, transactional=True)
    core.send(replace(again, system_properties={**again.system_properties, "DELAY": "1"}), topic="%RETRY%readers")
    assert (len(core.state.halves), len(core.state.delayed)) == (1, 1)
