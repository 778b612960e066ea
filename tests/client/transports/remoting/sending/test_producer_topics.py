"""Topics and stores of special kinds, which docs/apache.md names, are written and read on a real broker."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from processes.apache.cluster import ApacheCluster
from processes.apache.java_clients import JavaProducer
from processes.apache.releases import RELEASE_4, RELEASE_5_3, RELEASE_5_5, Release
from rmqpull_client.connection import Connection
from rmqpull_client.errors import RowsRefused
from rmqpull_client.model import QueueRange
from rmqpull_client.transports.choice import connect, get_producer
from rmqpull_client.transports.port import Producer
from tests.client.transports.remoting.sending.test_producer_apache import consume, publish
from tests.harness.apache import StartApache


@pytest.fixture
def producer(apache: ApacheCluster) -> Producer:
    return get_producer(Connection(name_servers=apache.addresses))


def test_a_compaction_topic_gets_no_row_that_it_would_lose(
    apache: ApacheCluster, apache_release: Release, producer: Producer, tmp_path: Path
) -> None:
    if apache_release is RELEASE_4:
        pytest.skip("4.x has no compaction topics")
    topic = f"compacted-{uuid4().hex[:12]}"
    apache.administration.create_topic(topic, 1, attributes={"cleanup.policy": "COMPACTION"})
    rows = [{"body": b"%d" % number, "keys": [f"k{number}"] if number % 3 else None} for number in range(9)]
    with pytest.raises(RowsRefused) as refused:
        publish(producer, topic, *rows)
    assert list(refused.value.reasons) == [0, 3, 6]
    found = consume(apache, apache_release, tmp_path, topic, 6)
    assert [int(message["body"]) for message in found] == [1, 2, 4, 5, 7, 8]


def test_a_priority_topic_takes_rows_without_a_priority(
    apache: ApacheCluster, apache_release: Release, producer: Producer, tmp_path: Path
) -> None:
    """As from Apache's producer, and to any queue. One with a priority goes to the queue of this number."""
    if apache_release is not RELEASE_5_5:
        pytest.skip("only 5.5 has topics of type PRIORITY here")
    topic = f"by-priority-{uuid4().hex[:12]}"
    apache.administration.create_topic(topic, 4, attributes={"message.type": "PRIORITY"})
    with JavaProducer(apache_release, apache.addresses, tmp_path / "producer") as java:
        java.send(topic, b"java")
        java.send(topic, b"java 3", properties={"_SYS_MSG_PRIORITY_": "3"})
    publish(
        producer, topic, *({"body": b"%d" % queue, "brokerName": "broker-a", "queueId": queue} for queue in range(4))
    )
    found = consume(apache, apache_release, tmp_path, topic, 6)
    queues = {message["body"]: message["queueId"] for message in found}
    assert queues | {b"java": None} == {b"java": None, b"java 3": 3, **{b"%d" % queue: queue for queue in range(4)}}


def test_a_topic_whose_queues_keep_batches_is_written_and_read(
    apache: ApacheCluster, apache_release: Release, producer: Producer
) -> None:
    if apache_release is RELEASE_4:
        pytest.skip("4.x has no such queues")
    topic = f"batches-{uuid4().hex[:12]}"
    apache.administration.create_topic(topic, 2, attributes={"queue.type": "BatchCQ"})
    assert write_and_read(apache, producer, topic) == NUMBERED


@pytest.mark.nightly
def test_a_broker_that_keeps_its_queues_in_rocksdb_is_written_and_read(
    start_apache: StartApache, apache_release: Release
) -> None:
    if apache_release not in (RELEASE_5_3, RELEASE_5_5):
        pytest.skip("only 5.3 and later keep queues in RocksDB here")
    cluster = start_apache(properties={"storeType": "defaultRocksDB"})
    cluster.administration.create_topic("orders", 2)
    writer = get_producer(Connection(name_servers=cluster.addresses))
    assert write_and_read(cluster, writer, "orders") == NUMBERED


NUMBERED = [b"%04d" % number for number in range(2_000)]


def write_and_read(cluster: ApacheCluster, producer: Producer, topic: str) -> list[bytes]:
    """Writes rows and a last single one, and returns what the connector's own client reads, in order."""
    publish(producer, topic, *({"body": body} for body in NUMBERED[:-1]))
    publish(producer, topic, {"body": NUMBERED[-1]})
    cluster.administration.wait_until_in_queues(topic, {one.name: one.address for one in cluster.brokers})
    client = connect(Connection(name_servers=cluster.addresses))
    bounds = client.query_bounds([topic])[topic].queues
    ranges = [QueueRange(queue, own.min_offset, own.max_offset) for queue, own in bounds.items()]
    steps = client.read(f"of-{topic}", ranges, ["body"])
    batches = [batch for step in steps for entry in step for batch in entry.batches]
    client.close()
    return sorted(bytes(body) for batch in batches for body in batch.column("body").to_pylist())
