"""What a real broker stores of our sends: read by Apache's consumer, through kills, beside its producer."""

from __future__ import annotations

import random
import time
import zlib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processes.apache.cluster import ApacheCluster, make_cluster, make_replicated_cluster
from processes.apache.java_clients import JavaProducer
from processes.apache.oracle import JavaOracle, to_bytes
from processes.apache.releases import RELEASE_4, Release
from rmqpull_client.connection import Connection
from rmqpull_client.errors import RmqpullError, RowsRefused
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.choice import get_producer
from rmqpull_client.transports.port import Producer
from rmqpull_client.transports.remoting.sending.queue_choice import choose_queues, hash_consistently, hash_like_java
from rmqpull_proto.columns import BODY_ENCODINGS, PUBLISH_SCHEMA
from tests.clients.programs.java.consumer import JavaConsumer
from tests.harness.apache import StartApache

OWN = {"CLUSTER", "MSG_REGION", "TRACE_ON", "UNIQ_KEY", "MIN_OFFSET", "MAX_OFFSET"}
"""Properties that broker, producer and consumer add."""


@pytest.fixture
def topic(apache: ApacheCluster) -> str:
    name = f"sent-{uuid4().hex[:12]}"
    apache.administration.create_topic(name, 4)
    return name


@pytest.fixture
def producer(apache: ApacheCluster) -> Producer:
    return get_producer(Connection(name_servers=apache.addresses))


def publish(producer: Producer, topic: str, *rows: dict[str, Any], by_keys: bool = False) -> None:
    given = [{"body": b"x"} | row for row in rows]
    names = dict.fromkeys(name for row in given for name in row)
    columns = {name: pa.array([row.get(name) for row in given], PUBLISH_SCHEMA.field(name).type) for name in names}
    producer.start_publish([(topic, len(rows))], pa.record_batch(columns), by_keys)()


def consume(cluster: ApacheCluster, release: Release, folder: Path, topic: str, count: int) -> list[dict[str, Any]]:
    """Reads messages with Apache's consumer, queue by queue. Their bodies are bytes."""
    with JavaConsumer(release, cluster.addresses, folder, topic, f"of-{topic}", kind="pull") as consumer:
        found = consumer.read(count)
    for message in found:
        message["body"] = to_bytes(message["body"])
    return sorted(found, key=lambda message: (message["broker"], message["queueId"], message["queueOffset"]))


def own_properties(message: dict[str, Any]) -> dict[str, str]:
    return {name: text for name, text in message["properties"].items() if name not in OWN}


def test_apaches_consumer_reads_what_was_sent(
    apache: ApacheCluster, apache_release: Release, producer: Producer, topic: str, tmp_path: Path
) -> None:
    full = {"tags": "T", "keys": ["k", "l"], "messageGroup": "g", "properties": [("a", "b"), ("größe", "7 €")]}
    expected = {"TAGS": "T", "KEYS": "k l", "__SHARDINGKEY": "g", "a": "b", "größe": "7 €"}
    packed = {"body": zlib.compress(b"z" * 5_000), "bodyEncoding": BODY_ENCODINGS["ZLIB"]}
    large = {"body": b"large", "properties": [("a", "v" * 30_000)]}
    publish(producer, topic, {"body": b"1", **full}, {"body": b"2"}, {"body": b"3", "tags": "U"}, packed, packed, large)
    found = consume(apache, apache_release, tmp_path, topic, 6)
    by_body = {message["body"]: own_properties(message) for message in found}
    assert by_body == {
        b"1": expected,
        b"2": {},
        b"3": {"TAGS": "U"},
        b"z" * 5_000: {},
        b"large": {"a": "v" * 30_000},
    }
    assert len({message["properties"]["UNIQ_KEY"] for message in found}) == 6


def test_a_value_keeps_its_control_characters_but_character_2(
    apache: ApacheCluster, apache_release: Release, producer: Producer, topic: str, tmp_path: Path
) -> None:
    """A batch of one row goes as SEND_MESSAGE_V2, others as SEND_BATCH_MESSAGE."""
    values, odd = ["b\x01c", "\x01b\x01", "a\nb\x00c\x7f"], "n\n\x00\x1f\x7f\x85"
    rows = [
        {"body": b"%d" % number, "properties": [("p", text), ("q", "r"), (odd, "in a name")]}
        for number, text in enumerate(values)
    ]
    for row in rows:
        publish(producer, topic, row)
    publish(producer, topic, *rows)
    found = consume(apache, apache_release, tmp_path, topic, 6)
    assert sorted((message["body"], own_properties(message)["p"]) for message in found) == sorted(
        (b"%d" % number, text) for number, text in [*enumerate(values)] * 2
    )
    assert all(own_properties(message).keys() == {"p", "q", odd} for message in found)
    with pytest.raises(RowsRefused) as refused:
        publish(producer, topic, rows[0], {"properties": [("p", "b\x02c")]})
    assert list(refused.value.reasons) == [1]


def test_rows_of_a_message_group_are_read_in_their_order(
    apache: ApacheCluster, apache_release: Release, producer: Producer, topic: str, tmp_path: Path
) -> None:
    groups, waits = [f"g{number}" for number in range(7)], []
    for first in range(0, 2_000, 200):
        bodies = [b"%d" % number for number in range(first, first + 200)]
        owners = [groups[number % 7] for number in range(first, first + 200)]
        batch = pa.record_batch({"body": pa.array(bodies, pa.binary()), "messageGroup": pa.array(owners)})
        waits.append(producer.start_publish([(topic, 200)], batch, False))
    for wait in waits:
        wait()
    numbers, queues = defaultdict(list), defaultdict(set)
    for message in consume(apache, apache_release, tmp_path, topic, 2_000):
        group = message["properties"]["__SHARDINGKEY"]
        numbers[group].append(int(message["body"]))
        queues[group].add(message["queueId"])
    assert all(own == sorted(own) for own in numbers.values())
    assert sorted(number for own in numbers.values() for number in own) == list(range(2_000))
    assert {len(own) for own in queues.values()} == {1}


@given(
    st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=9), min_size=1, max_size=20), st.integers(1, 64)
)
def test_groups_go_to_the_queues_that_javas_hashes_choose(oracle: JavaOracle, groups: list[str], count: int) -> None:
    texts = pa.array(groups)
    hashes = [oracle.hash_code(group) for group in groups]
    assert hash_like_java(texts).tolist() == hashes
    if oracle.release is not RELEASE_4:
        queues = [MessageQueue("orders", "a", number) for number in range(count)]
        chosen = choose_queues(pa.record_batch({"messageGroup": texts}), queues, by_keys=False).indexes
        assert chosen.tolist() == [oracle.hash_consistently(each, count) for each in hashes]
        assert hash_consistently(hash_like_java(texts), count).tolist() == chosen.tolist()


def test_delayed_messages_come_at_their_time_or_after_the_next_delay_level(
    apache: ApacheCluster, apache_release: Release, producer: Producer, topic: str, tmp_path: Path
) -> None:
    asked_ms = time.time_ns() // 1_000_000 + 1_500
    publish(producer, topic, {"body": b"late", "deliveryTimestamp": asked_ms * 1_000}, {"body": b"now"})
    late, now = sorted(consume(apache, apache_release, tmp_path, topic, 2), key=lambda message: len(message["body"]))[
        ::-1
    ]
    has_timer = apache_release is not RELEASE_4
    assert (late["body"], now["body"]) == (b"late", b"now")
    assert late["properties"].get("TIMER_DELIVER_MS") == (str(asked_ms) if has_timer else None)
    assert late["storeTimestamp"] >= asked_ms - 1_000  # a timer may be early by its precision (rules 3.14.2)


def test_rows_that_the_broker_refuses_are_named_and_the_others_stored_once(
    apache: ApacheCluster, apache_release: Release, producer: Producer, topic: str, tmp_path: Path
) -> None:
    rows = [{"body": b"%d" % number} for number in range(20)]
    rows[7] = {"body": bytes(4_194_305)}
    with pytest.raises(RowsRefused) as refused:
        publish(producer, topic, *rows)
    assert list(refused.value.reasons) == [7]
    found = consume(apache, apache_release, tmp_path, topic, 19)
    assert sorted(int(message["body"]) for message in found) == [number for number in range(20) if number != 7]


def test_a_topic_that_was_deleted_is_not_created_again(apache: ApacheCluster, producer: Producer, topic: str) -> None:
    publish(producer, topic, {"body": b"1"})  # now the route is known
    apache.administration.delete_topic(topic)
    for _ in range(2):
        with pytest.raises(RmqpullError):
            publish(producer, topic, {"body": b"2"}, {"body": b"3"})
    assert topic not in apache.administration.list_topics()


def test_mixed_with_apaches_producer_all_messages_are_read(
    apache: ApacheCluster, apache_release: Release, producer: Producer, topic: str, tmp_path: Path
) -> None:
    with JavaProducer(apache_release, apache.addresses, tmp_path / "producer") as other:
        publish(producer, topic, {"body": b"1", "tags": "T"})
        other.send(topic, b"2", tags="T")
        publish(producer, topic, {"body": b"3", "tags": "T"})
    found = consume(apache, apache_release, tmp_path / "consumer", topic, 3)
    assert sorted(message["body"] for message in found) == [b"1", b"2", b"3"]
    assert all(own_properties(message).items() >= {"TAGS": "T"}.items() for message in found)


@pytest.fixture
def pair(start_apache: StartApache) -> ApacheCluster:
    """Two masters."""
    return start_apache(make_cluster, masters=("broker-a", "broker-b"))


@pytest.mark.nightly
def test_every_acknowledged_row_survives_kills_of_brokers(
    pair: ApacheCluster, apache_release: Release, tmp_path: Path
) -> None:
    pair.administration.create_topic("killed", 4)
    draw = random.Random(3)
    producer = get_producer(Connection(name_servers=pair.addresses, request_timeout_ms=60_000))
    acknowledged = list[int]()
    for first in range(0, 3_000, 100):
        if first in (600, 1_800):
            broker = draw.choice(pair.brokers)
            broker.kill()
        batch = pa.record_batch(
            {
                "body": pa.array([b"%d" % number for number in range(first, first + 100)], pa.binary()),
                "messageGroup": pa.array([None if number % 2 else "g" for number in range(first, first + 100)]),
            }
        )
        wait = producer.start_publish([("killed", 100)], batch, False)
        if first in (600, 1_800):
            broker.start()
        wait()
        acknowledged += range(first, first + 100)
    pair.administration.wait_until_in_queues("killed", {broker.name: broker.address for broker in pair.brokers})
    count = pair.administration.count_messages("killed")
    found = consume(pair, apache_release, tmp_path, "killed", count)
    assert {int(message["body"]) for message in found} == set(acknowledged)
    by_queue = defaultdict(list)
    for message in found:
        if message["properties"].get("__SHARDINGKEY"):
            by_queue[message["broker"], message["queueId"]].append(int(message["body"]))
    assert all(is_in_order(numbers) for numbers in by_queue.values())


@pytest.mark.nightly
def test_a_row_that_the_slave_lacks_is_not_acknowledged(start_apache: StartApache) -> None:
    cluster = start_apache(make_replicated_cluster)
    cluster.administration.create_topic("copied", 2)
    connection = Connection(name_servers=cluster.addresses, request_timeout_ms=4_000)
    publish(get_producer(connection), "copied", {"body": b"1"}, {"body": b"2"})
    cluster.find_broker("broker-a", 1).kill()
    with pytest.raises(RmqpullError, match=r"SLAVE_NOT_AVAILABLE|FLUSH_SLAVE_TIMEOUT|did not respond"):
        publish(get_producer(connection), "copied", {"body": b"3"})


def is_in_order(numbers: Sequence[int]) -> bool:
    """Whether each number comes for the first time after all smaller ones; repeats may follow."""
    first_times = list(dict.fromkeys(numbers))
    return first_times == sorted(first_times)
