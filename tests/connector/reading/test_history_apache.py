"""On a real RocketMQ: a query notices that history was rewritten, and sees nothing where it was not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from processes.apache.cluster import ApacheCluster, make_replicated_cluster
from rmqpull_client.errors import DataLoss
from tests.harness.apache import StartApache
from tests.harness.fake_broker_client import ManualClock
from tests.harness.stream_query import StreamQuery
from tests.harness.waiting import wait_until

TOPIC = "orders"
CLEAN_EXPIRED_QUEUES, CLEAN_UNUSED_TOPICS, DELETE_EXPIRED_LOG = 306, 316, 329


@pytest.fixture
def cluster(start_apache: StartApache) -> ApacheCluster:
    """A topic with one queue and ten messages."""
    cluster = start_apache()
    cluster.administration.create_topic(TOPIC, 1)
    send(cluster, "old", 10)
    return cluster


def send(cluster: ApacheCluster, name: str, count: int) -> None:
    administration = cluster.administration
    address = cluster.find_broker("broker-a").address
    end = administration.query_bounds(TOPIC, 0)[1] + count
    for number in range(count):
        administration.send(address, TOPIC, f"{name} {number}".encode())
    wait_until(lambda: administration.query_bounds(TOPIC, 0)[1] == end, "in the queue")


def start_query(cluster: ApacheCluster, end: object = None, **options: str) -> StreamQuery:
    """A query without a checkpoint, or one that continues from what its checkpoint has as text."""
    checkpoint = None if end is None else json.loads(json.dumps(end))
    given = {"nameServers": cluster.addresses, "topic": TOPIC, **options}
    return StreamQuery(ManualClock(), checkpoint, **given)


def read(query: StreamQuery) -> list[str]:
    """Plans micro-batches until nothing is left, and returns the bodies that they read."""
    bodies: list[str] = []
    while True:
        query.plan()
        if query.is_idle:
            return bodies
        for task in query.reader.partitions(query.start, query.end):
            for batch in query.reader.read(task):
                bodies += [body.decode() for body in batch.column("body").to_pylist()]


def names(name: str, count: int) -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def restart(cluster: ApacheCluster, *, backup: Path | None = None, restored: Path | None = None) -> None:
    """Stops the broker and starts it again. Meanwhile its store is copied, or a copy takes its place."""
    (broker,) = cluster.brokers
    broker.stop()
    store = broker.folder / "store"
    if backup is not None:
        shutil.copytree(store, backup)
    if restored is not None:
        shutil.rmtree(store)
        shutil.copytree(restored, store)
    broker.start()
    wait_until(lambda: cluster.administration.query_bounds(TOPIC, 0)[1] >= 10, "served again")


@pytest.mark.parametrize("count", [8, 3], ids=["grown past the offset", "ends below the offset"])
def test_a_restored_store_is_noticed_and_what_is_new_is_read(
    cluster: ApacheCluster, tmp_path: Path, count: int
) -> None:
    running = start_query(cluster, failOnDataLoss="false")
    assert read(running) == names("old", 10)
    restart(cluster, backup=tmp_path / "backup")
    send(cluster, "gone", 5)
    assert read(running) == names("gone", 5)  # nothing was rewritten by this restart
    checkpoint = running.end
    restart(cluster, restored=tmp_path / "backup")
    send(cluster, "new", count)

    with pytest.raises(DataLoss, match="another message at offset 14" if count == 8 else "ends at offset 13"):
        start_query(cluster, checkpoint).plan()
    assert read(start_query(cluster, checkpoint, failOnDataLoss="false")) == names("new", count)
    assert read(running) == names("new", count)
    send(cluster, "newer", 2)
    assert read(running) == names("newer", 2)


def test_a_topic_that_was_created_again_is_noticed(cluster: ApacheCluster) -> None:
    running = start_query(cluster, failOnDataLoss="false")
    assert read(running) == names("old", 10)
    cluster.administration.delete_topic(TOPIC)
    restart_topic(cluster)
    send(cluster, "new", 12)
    with pytest.raises(DataLoss, match="another message at offset 9 than the one that the query has passed there"):
        start_query(cluster, running.end).plan()
    assert read(start_query(cluster, running.end, failOnDataLoss="false")) == names("new", 12)


def restart_topic(cluster: ApacheCluster) -> None:
    cluster.administration.create_topic(TOPIC, 1)
    wait_until(lambda: cluster.administration.query_bounds(TOPIC, 0) == (0, 0), "empty")


def test_what_a_broker_cleans_up_is_no_rewritten_history(cluster: ApacheCluster) -> None:
    running = start_query(cluster)
    assert read(running) == names("old", 10)
    (broker,) = cluster.brokers
    for code in (CLEAN_EXPIRED_QUEUES, CLEAN_UNUSED_TOPICS, DELETE_EXPIRED_LOG):
        cluster.administration.call(broker.address, code, {})
    send(cluster, "more", 2)
    assert read(start_query(cluster, running.end)) == names("more", 2)
    assert read(running) == names("more", 2)


def test_a_slave_is_not_believed_and_a_master_that_comes_back_raises_no_alarm(
    start_apache: StartApache,
) -> None:
    cluster = start_apache(make_replicated_cluster)
    cluster.administration.create_topic(TOPIC, 1)
    cluster.wait_for_slaves(TOPIC)
    send(cluster, "old", 10)
    running = start_query(cluster, requestTimeoutMs="60000")
    assert read(running) == names("old", 10)
    master = cluster.find_broker("broker-a")
    master.kill()
    assert read(running) == []
    assert read(start_query(cluster, running.end, requestTimeoutMs="60000")) == []
    master.start()
    master.wait_for_slave()
    send(cluster, "more", 2)
    assert read(running) == names("more", 2)
