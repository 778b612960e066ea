"""Apache's producer: sync, async, one-way, batches, queues, delays, transactions, request and reply, traces."""

from __future__ import annotations

import time

import pytest

from tests.clients.programs.java.many_clients import ClientRefused, Read
from tests.harness.client_servers import BROKER, Place, bodies_of, make_message
from tests.harness.waiting import wait_until


@pytest.mark.small
def test_a_message_is_read_as_it_was_sent(place: Place) -> None:
    """Sync: the result has the queue, the offset and both ids, and consumers see every field."""
    topic = place.create_topic()
    (sent,) = place.send(topic, "one", tags="red", keys="k1 k2", flag=5, properties={"weight": "3"})
    (read,) = place.read_topic(topic, 1)
    assert (sent["status"], sent["broker"], sent["queue"], sent["queueOffset"]) == ("SEND_OK", BROKER, 0, 0)
    assert (read.stored["msgId"], read.stored["offsetMsgId"]) == (sent["msgId"], sent["offsetMsgId"])
    assert (read.body, read.stored["topic"], read.stored["flag"], read.stored["sysFlag"]) == ("one", topic, 5, 0)
    assert (read.queue, read.offset, read.attempts) == (0, 0, 0)
    names = ("TAGS", "KEYS", "weight", "UNIQ_KEY", "WAIT", "MIN_OFFSET", "MAX_OFFSET", "MSG_REGION", "TRACE_ON")
    values = ("red", "k1 k2", "3", sent["msgId"], "true", "0", "1", "DefaultRegion", "true")
    assert {name: read.properties[name] for name in names} == dict(zip(names, values, strict=True))
    assert read.stored["storeTimestamp"] >= read.stored["bornTimestamp"]


@pytest.mark.small
def test_async_and_one_way_sends_arrive(place: Place) -> None:
    """Async and one-way: the callback gets the result, and a one-way message arrives without one."""
    topic = place.create_topic()
    result = place.producer.call("sendAsync", message=make_message(topic, "async"))
    assert (result["status"], result["queueOffset"]) == ("SEND_OK", 0)
    place.producer.call("sendOneWay", message=make_message(topic, "one-way"))
    assert bodies_of(place.read_topic(topic, 2)) == ["async", "one-way"]


@pytest.mark.small
def test_a_batch_goes_to_one_queue(place: Place) -> None:
    """Batch: all of its messages are in one queue, one after the other."""
    topic = place.create_topic(queues=4)
    messages = [make_message(topic, str(number), tags=f"t{number}") for number in range(5)]
    result = place.producer.call("sendBatch", messages=messages)
    assert (result["status"], result["queueOffset"]) == ("SEND_OK", 0)
    read = sorted(place.read_topic(topic, 5, queues=4), key=lambda one: one.offset)
    assert [(one.body, one.properties["TAGS"], one.offset) for one in read] == [
        (str(number), f"t{number}", number) for number in range(5)
    ]
    assert {one.queue for one in read} == {result["queue"]}


@pytest.mark.small
def test_messages_of_one_key_go_to_one_queue(place: Place) -> None:
    """Selectors: messages of one key are in one queue; without a key, a producer uses all queues in turn."""
    topic = place.create_topic(queues=4)
    keyed = {key: place.send(topic, "1", "2", "3", shardingKey=key) for key in ("a", "b", "c")}
    assert {key: {one["queue"] for one in sent} for key, sent in keyed.items()} == {"a": {1}, "b": {2}, "c": {3}}
    assert {one["queue"] for one in place.send(topic, *"abcdefgh")} == {0, 1, 2, 3}
    (sent,) = place.send(topic, "there", broker=BROKER, queue=3)
    assert sent["queue"] == 3


def test_a_long_body_is_compressed_on_the_way(place: Place) -> None:
    """Compression: bodies of 4 KiB and more are stored compressed, and read as they were."""
    topic = place.create_topic()
    place.send(topic, "a" * 10_000)
    (read,) = place.read_topic(topic, 1)
    assert read.body == "a" * 10_000
    assert read.stored["storeSize"] < 1_000


def test_a_send_creates_its_topic(place: Place) -> None:
    """Topics that do not exist are created by a send, with four queues, as TBW102 allows."""
    topic = f"created-by-{place.group}"
    place.send(topic, "one")
    assert place.producer.call("queues", topic=topic) == [[topic, BROKER, queue] for queue in range(4)]
    assert bodies_of(place.read_topic(topic, 1, queues=4)) == ["one"]


@pytest.mark.small
def test_a_delayed_message_comes_after_its_delay(place: Place) -> None:
    """Delay levels: the message is stored in its topic when the delay of its level is over."""
    topic = place.create_topic()
    (sent,) = place.send(topic, "late", delayLevel=1)
    assert sent["status"] == "SEND_OK"
    place.send(topic, "at once")
    first, second = place.read_topic(topic, 2)
    assert [first.body, second.body] == ["at once", "late"]
    assert second.properties["DELAY"] == "1"
    assert second.stored["storeTimestamp"] - second.stored["bornTimestamp"] >= 1_000
    assert second.stored["msgId"] == sent["msgId"]


def test_a_message_with_a_delivery_time_comes_then(place: Place) -> None:
    """Delivery times: the message is stored in its topic at its time, or within a second before it."""
    topic = place.create_topic()
    at_ms = time.time_ns() // 1_000_000 + 2_000
    place.send(topic, "late", properties={"TIMER_DELIVER_MS": str(at_ms)})
    place.send(topic, "at once")
    first, second = place.read_topic(topic, 2)
    assert [first.body, second.body] == ["at once", "late"]
    assert second.stored["storeTimestamp"] > at_ms - 1_000


@pytest.mark.small
@pytest.mark.parametrize(
    ("states", "is_read"),
    [
        ("COMMIT_MESSAGE", True),
        ("ROLLBACK_MESSAGE", False),
        ("UNKNOW COMMIT_MESSAGE", True),
        ("UNKNOW UNKNOW COMMIT_MESSAGE", True),
        ("UNKNOW ROLLBACK_MESSAGE", False),
    ],
)
def test_a_transaction_ends_as_its_producer_says(place: Place, states: str, is_read: bool) -> None:
    """Transactions: only committed messages are read. The broker asks the producer about unknown ones."""
    topic = place.create_topic()
    message = make_message(topic, "in transaction", tags="red", properties={"states": states})
    sent = place.producer.call("sendInTransaction", message=message)
    assert sent["status"] == "SEND_OK"
    if is_read:
        (read,) = place.read_topic(topic, 1)
        assert (read.body, read.properties["TAGS"], read.stored["msgId"]) == ("in transaction", "red", sent["msgId"])
        assert read.stored["transactionId"] == sent["msgId"]
        assert read.stored["sysFlag"] & 0xC == 8  # committed
        return
    # The message that comes to be half later ends later, in the same way: then the first one has ended, too.
    place.producer.call(
        "sendInTransaction", message=make_message(topic, "next", properties={"states": "UNKNOW COMMIT_MESSAGE"})
    )
    assert bodies_of(place.read_topic(topic, 1)) == ["next"]


@pytest.mark.small
def test_a_request_gets_its_reply(place: Place) -> None:
    """Request and reply: the reply comes to the producer that asked."""
    topic = place.create_topic()
    place.start("push", topic=topic, replier=place.producer.name)
    asking = place.start("producer", f"{place.group}-asking")
    reply = Read(asking.call("request", message=make_message(topic, "question", broker=BROKER)))
    assert reply.body == "reply to question"
    assert reply.properties["MSG_TYPE"] == "reply"


def test_a_producer_asks_brokers(place: Place) -> None:
    """What producers ask: bounds and times of queues, and messages by id and by key."""
    topic = place.create_topic()
    first, second = place.send(topic, "1", "2", keys=f"key-of-{place.group}")
    queue = {"topic": topic, "broker": BROKER, "queue": 0}
    ask = place.producer.call
    place.wait_for_messages(topic, 2)
    assert [ask("minOffset", **queue), ask("maxOffset", **queue)] == [0, 2]
    one, two = place.read_topic(topic, 2)
    assert ask("earliestTime", **queue) == one.stored["storeTimestamp"]
    assert ask("searchOffset", **queue, timestamp=0) == 0
    assert ask("searchOffset", **queue, timestamp=two.stored["storeTimestamp"] + 1_000) == 2
    assert Read(ask("view", topic=topic, id=second["offsetMsgId"])).body == "2"
    assert Read(ask("view", topic=topic, id=first["msgId"])).body == "1"

    def query() -> list[str]:
        try:
            return bodies_of(map(Read, ask("query", topic=topic, key=f"key-of-{place.group}")))
        except ClientRefused:
            return []  # the index is built a little later

    wait_until(lambda: query() == ["1", "2"], "found by their key")


@pytest.mark.small
def test_traces_tell_who_sent_and_consumed(place: Place) -> None:
    """Message traces: producer and consumer send them as messages to their own topic."""
    topic, traces = place.create_topic(), place.create_topic()
    producer = place.start("producer", f"{place.group}-traced", traceTopic=traces)
    consumer = place.start("push", topic=topic, traceTopic=traces)
    sent = producer.call("send", message=make_message(topic, "one", keys="k"))
    place.read(consumer, 1)
    found = [entry.split("\x01") for read in place.read_topic(traces, 2) for entry in read.body.split("\x02") if entry]
    assert sorted(entry[0] for entry in found) == ["Pub", "SubAfter", "SubBefore"]
    assert all(sent["msgId"] in entry for entry in found)


def test_a_refused_send_is_an_exception(place: Place) -> None:
    """Refusals: the producer raises an exception with the broker's text."""
    with pytest.raises(ClientRefused, match="illegal characters"):
        place.send("no*such*topic", "one")
