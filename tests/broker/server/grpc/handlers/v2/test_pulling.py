"""PullMessage over gRPC (rules 3.1 to 3.4): results, and parked pulls."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.parking_watch import ParkingWatch
from tests.harness.rpc_client import Connect, RpcClient

LONG_MS = 250_000


def queue_of(topic: str, queue_id: int = 0, broker_name: str = "") -> v2.MessageQueue:
    return v2.MessageQueue(topic=v2.Resource(name=topic), id=queue_id, broker=v2.Broker(name=broker_name))


SINGLE = queue_of("single")


# --- results ----------------------------------------------------------------------------------------------------------


def test_messages_are_pulled_in_order_and_the_next_pull_continues_after_them(client: RpcClient) -> None:
    client.send_bodies("single", b"a", b"b", b"c")
    first = client.pull(SINGLE, 0, batch_size=2)
    assert (first.code, first.status_message, first.bodies, first.next_offset) == ("OK", "FOUND", [b"a", b"b"], 2)
    assert client.pull(SINGLE, 2).bodies == [b"c"]


def test_a_message_comes_back_as_it_was_sent(client: RpcClient) -> None:
    sent = v2.Message(
        topic=v2.Resource(name="single"),
        body=b"packed",
        user_properties={"colour": "blue", "size": "9"},
        system_properties=v2.SystemProperties(
            message_id="id-1",
            tag="new",
            keys=["k1", "k2"],
            body_encoding=v2.Encoding.GZIP,
            born_host="10.1.2.3",
            trace_context="trace",
        ),
    )
    sent.system_properties.born_timestamp.FromMilliseconds(1_700_000_000_123)
    client.send(sent)
    (got,) = client.pull(SINGLE, 0).messages
    # Properties that are not reserved are among the user's properties too (rules 5.12.1).
    properties = {**sent.user_properties, "TRACE_CONTEXT": "trace"}
    assert (got.topic, got.body, dict(got.user_properties)) == (sent.topic, sent.body, properties)
    for field in ("message_id", "tag", "keys", "body_encoding", "trace_context", "born_timestamp"):
        assert getattr(got.system_properties, field) == getattr(sent.system_properties, field), field


def test_a_message_has_the_fields_that_clients_require(client: RpcClient, broker: RunningBroker) -> None:
    client.send_bodies("single", b"first", b"second")
    _, second = client.pull(SINGLE, 0).messages
    system = second.system_properties
    assert system.body_digest.type == v2.DigestType.MD5
    assert system.body_digest.checksum == hashlib.md5(b"second").hexdigest().upper()
    assert (system.body_encoding, system.message_type) == (v2.Encoding.IDENTITY, v2.MessageType.NORMAL)
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (0, 1, 1)
    assert re.fullmatch(r"127\.0\.0\.1:\d+", system.born_host)
    assert system.store_host == broker.endpoints
    assert system.HasField("store_timestamp")
    assert not any(map(system.HasField, ("tag", "message_group", "delivery_timestamp")))


@pytest.mark.parametrize(
    ("offset", "code", "status", "next_offset"),
    [
        (3, "MESSAGE_NOT_FOUND", "OFFSET_OVERFLOW_ONE", 3),
        (4, "ILLEGAL_OFFSET", "OFFSET_OVERFLOW_BADLY", 3),
        (-1, "ILLEGAL_OFFSET", "OFFSET_TOO_SMALL", 0),
    ],
)
def test_an_offset_without_a_message_has_its_own_status(
    client: RpcClient, offset: int, code: str, status: str, next_offset: int
) -> None:
    client.send_bodies("single", b"a", b"b", b"c")
    assert client.pull(SINGLE, offset) == (code, status, [], next_offset)


@pytest.mark.parametrize(("offset", "code"), [(0, "MESSAGE_NOT_FOUND"), (5, "ILLEGAL_OFFSET"), (-5, "ILLEGAL_OFFSET")])
def test_an_empty_queue_corrects_every_offset_to_zero(client: RpcClient, offset: int, code: str) -> None:
    assert client.pull(SINGLE, offset) == (code, "NO_MESSAGE_IN_QUEUE", [], 0)


@pytest.mark.parametrize(("batch_size", "count"), [(1, 1), (0, 1), (-1, 1), (32, 32), (1000, 32)])
def test_one_pull_returns_between_1_and_32_messages(client: RpcClient, batch_size: int, count: int) -> None:
    client.send_bodies("single", *[b"x"] * 40)
    assert len(client.pull(SINGLE, 0, batch_size=batch_size).bodies) == count


def test_the_limit_of_256_kib_counts_stored_records(client: RpcClient) -> None:
    client.send_bodies("single", *[bytes(8_192)] * 40)
    assert len(client.pull(SINGLE, 0).bodies) == 31


def test_a_tag_filter_moves_the_reader_past_other_messages(client: RpcClient) -> None:
    for tag in ("a", "b", "c"):
        client.send_bodies("single", tag.encode(), tag=tag)
    assert client.pull(SINGLE, 0, tags="a || c").bodies == [b"a", b"c"]
    assert client.pull(SINGLE, 0, tags="z") == ("MESSAGE_NOT_FOUND", "NO_MATCHED_MESSAGE", [], 3)


def test_a_sql_filter_looks_at_properties(client: RpcClient) -> None:
    for tag in ("a", "b", "c"):
        client.send_bodies("single", tag.encode(), tag=tag)
    assert client.pull(SINGLE, 0, sql="TAGS IN ('a', 'c')").bodies == [b"a", b"c"]
    assert client.pull(SINGLE, 0, sql="TAGS > 5") == ("MESSAGE_NOT_FOUND", "NO_MATCHED_MESSAGE", [], 3)


@pytest.mark.parametrize(
    ("queue", "options", "code"),
    [
        (queue_of("unknown"), {}, "TOPIC_NOT_FOUND"),
        (queue_of("single", 1), {}, "BAD_REQUEST"),
        (queue_of("single", -1), {}, "BAD_REQUEST"),
        (queue_of("single", broker_name="broker-z"), {}, "BAD_REQUEST"),
        (queue_of(""), {}, "ILLEGAL_TOPIC"),
        (SINGLE, {"group": ""}, "ILLEGAL_CONSUMER_GROUP"),
        (SINGLE, {"tags": "||"}, "ILLEGAL_FILTER_EXPRESSION"),
        (SINGLE, {"sql": "a >"}, "ILLEGAL_FILTER_EXPRESSION"),
        (SINGLE, {"wait_ms": 300_001}, "ILLEGAL_POLLING_TIME"),
    ],
)
def test_a_bad_pull_is_refused(client: RpcClient, queue: v2.MessageQueue, options: dict[str, Any], code: str) -> None:
    pulled = client.pull(queue, 0, **options)
    assert (pulled.code, pulled.messages, pulled.next_offset) == (code, [], None)
    assert pulled.status_message


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    assert connect(broker.endpoints, client_id="").pull(SINGLE, 0).code == "CLIENT_ID_REQUIRED"


def test_a_pull_creates_its_group_even_when_the_topic_is_unknown(client: RpcClient) -> None:
    assert client.update_offset("new", SINGLE, 1) == "CONSUMER_GROUP_NOT_FOUND"
    assert client.pull(queue_of("unknown"), 0, group="new").code == "TOPIC_NOT_FOUND"
    assert client.update_offset("new", SINGLE, 1) == "OK"


# --- long polling -----------------------------------------------------------------------------------------------------


def test_an_arrival_wakes_a_parked_pull(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = client.start_pull(SINGLE, 0, wait_ms=LONG_MS)
    parking_watch.await_parked()
    client.send_bodies("single", b"news")
    found = client.finish_pull(pull)
    assert (found.code, found.bodies, found.next_offset) == ("OK", [b"news"], 1)


def test_another_tag_wakes_nobody(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = client.start_pull(SINGLE, 0, tags="wanted", wait_ms=LONG_MS)
    parking_watch.await_parked()
    client.send_bodies("single", b"noise", tag="foreign")
    # A pull that an arrival wakes ends before the response to the send.
    assert parking_watch.left.empty()
    client.send_bodies("single", b"news", tag="wanted")
    found = client.finish_pull(pull)
    assert (found.bodies, found.next_offset) == ([b"news"], 2)


def test_an_arrival_on_another_queue_wakes_nobody(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = client.start_pull(queue_of("orders", 1), 0, wait_ms=LONG_MS)
    parking_watch.await_parked()
    client.send_bodies("orders", b"to queue 0")
    assert parking_watch.left.empty()
    client.send_bodies("orders", b"to queue 1")
    assert client.finish_pull(pull).bodies == [b"to queue 1"]


def test_one_arrival_wakes_every_pull_of_the_queue(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pulls = [client.start_pull(SINGLE, 0, group=group, wait_ms=LONG_MS) for group in ("a", "b", "b")]
    for _ in pulls:
        parking_watch.await_parked()
    client.send_bodies("single", b"news")
    assert [client.finish_pull(pull).bodies for pull in pulls] == [[b"news"]] * 3


@pytest.mark.parametrize(("count", "status"), [(0, "NO_MESSAGE_IN_QUEUE"), (2, "OFFSET_OVERFLOW_ONE")])
def test_a_pull_that_parks_without_an_arrival_finds_no_message(
    client: RpcClient, parking_watch: ParkingWatch, count: int, status: str
) -> None:
    if count:
        client.send_bodies("single", *[b"old"] * count)
    pull = client.start_pull(SINGLE, count, wait_ms=20)
    parking_watch.await_parked()
    assert client.finish_pull(pull) == ("MESSAGE_NOT_FOUND", status, [], count)


@pytest.mark.parametrize("offset", [-1, 0, 5])
def test_only_a_pull_at_the_end_of_its_queue_parks(client: RpcClient, parking_watch: ParkingWatch, offset: int) -> None:
    client.send_bodies("single", b"old")
    client.pull(SINGLE, offset, wait_ms=LONG_MS)
    assert parking_watch.entered.empty()


@pytest.mark.proves("A parked pull whose caller has disconnected")
def test_a_pull_whose_caller_leaves_is_removed(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = client.start_pull(SINGLE, 0, wait_ms=LONG_MS)
    parked = parking_watch.await_parked()
    pull.cancel()
    assert parking_watch.await_left() is parked
    assert client.send_bodies("single", b"news") == [0]


def test_parked_pulls_are_answered_when_the_broker_stops(connect: Connect, parking_watch: ParkingWatch) -> None:
    with running_broker(topics={"single": 1}) as broker:
        client = connect(broker.endpoints)
        pull = client.start_pull(SINGLE, 0, wait_ms=LONG_MS)
        parking_watch.await_parked()
    assert client.finish_pull(pull) == ("MESSAGE_NOT_FOUND", "NO_MESSAGE_IN_QUEUE", [], 0)
