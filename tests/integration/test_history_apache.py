"""On a real RocketMQ: a query notices that history was rewritten, and sees nothing where it was not.

All tests but one share a cluster, and kill its broker. ``test_loss.py`` shows retention.

Runs once: they change the store of Apache's broker.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest

from processes.apache.cluster import ApacheCluster, make_replicated_cluster
from processes.apache.releases import RELEASE_4, Release
from processes.apache.servers import Broker
from rmqpull_client.errors import DataLoss, RequestRefused
from rmqpull_client.model import MessageQueue
from tests.harness.apache import StartApache, run_apache
from tests.harness.apache_messages import read_records
from tests.harness.fake_broker_client import ManualClock
from tests.harness.stream_query import StreamQuery
from tests.harness.waiting import wait_until

CLEAN_EXPIRED_QUEUES, CLEAN_UNUSED_TOPICS, DELETE_EXPIRED_LOG, PULL = 306, 316, 329, 11
NOT_NOW = (19, 20, 21)
"""The codes of a pull that finds no message, for example in a file that is being replaced."""
READ_ONLY, WRITE_ONLY, READ_AND_WRITE = 4, 2, 6
COMPACTS_SOON = {
    "compactionScheduleInternal": "1000",
    "compactionCqMappedFileSize": "4600",
    "compactionMappedFileSize": str(64 << 10),
}
"""The broker compacts every 2 to 3 s. It leaves the last file alone, so files are small."""
FILLS_A_THIRD = 20 << 10
ROUTES_TOLD_MS = 200


@dataclass(frozen=True)
class Topic:
    """A topic of one broker, with one queue unless a test changes that."""

    cluster: ApacheCluster
    name: str

    @property
    def broker(self) -> Broker:
        return self.cluster.find_broker("broker-a")

    def bounds(self, queue: int = 0) -> tuple[int, int]:
        return self.cluster.administration.query_bounds(self.name, queue)

    def change(self, queues: int = 1, read_queues: int | None = None, perm: int = READ_AND_WRITE) -> None:
        self.cluster.administration.create_topic(self.name, queues, read_queues=read_queues, perm=perm)

    def send(self, name: str, count: int, queue: int = 0, key: str = "", padding: int = 0) -> list[int]:
        """Sends messages, and returns their positions in the broker's log."""
        administration = self.cluster.administration
        end = self.bounds(queue)[1] + count
        properties = f"KEYS\1{key}\2" if key else ""
        positions = []
        for number in range(count):
            body = f"{name} {number}".encode().ljust(padding)
            sent = administration.send(self.broker.address, self.name, body, queue, properties=properties)
            positions.append(int(sent.fields["msgId"][-16:], 16))
        wait_until(lambda: self.bounds(queue)[1] == end, "in the queue")
        return positions

    def start_query(self, end: object = None, **options: str) -> StreamQuery:
        """A query without a checkpoint, or one that continues from what its checkpoint has as text."""
        checkpoint = None if end is None else json.loads(json.dumps(end))
        where = {"nameServers": self.cluster.addresses, "pollNameServerInterval": str(ROUTES_TOLD_MS)}
        return StreamQuery(ManualClock(), checkpoint, **where, topic=self.name, **options)

    def find_offsets(self, first: int) -> list[int]:
        """Returns the offsets of the messages that one pull finds from an offset on."""
        fields = {
            "consumerGroup": "TOOLS_CONSUMER",
            "topic": self.name,
            "queueId": 0,
            "queueOffset": first,
            "maxMsgNums": 32,
            "sysFlag": 4,  # a subscription without a heartbeat
            "commitOffset": 0,
            "suspendTimeoutMillis": 0,
            "subscription": "*",
            "subVersion": 0,
        }
        response = self.cluster.administration.call(self.broker.address, PULL, fields, refusals_allowed=NOT_NOW)
        return [record.row.queue_offset for record in read_records(response.body)]


@pytest.fixture(scope="module")
def cluster(apache_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with run_apache(apache_release, tmp_path_factory.mktemp("history")) as start:
        yield start(properties=COMPACTS_SOON)


@pytest.fixture
def topic(cluster: ApacheCluster) -> Topic:
    """A topic with ten messages."""
    topic = Topic(cluster, f"history-{uuid4().hex[:12]}")
    topic.change()
    topic.send("old", 10)
    return topic


def plan_and_read(query: StreamQuery) -> list[str]:
    query.plan()
    if query.is_idle:
        return []
    tasks = query.reader.partitions(query.start, query.end)
    rows = [body for task in tasks for batch in query.reader.read(task) for body in batch.column("body").to_pylist()]
    return [body.decode().strip() for body in rows]


def read(query: StreamQuery) -> list[str]:
    """Plans micro-batches until nothing is left, and returns the bodies that they read."""
    bodies = plan_and_read(query)
    while not query.is_idle:
        bodies += plan_and_read(query)
    return bodies


def wait_for_refusal(query: StreamQuery, error: type[Exception], match: str) -> None:
    """Plans until the query has the new route, by which it cannot read on."""

    def is_refused() -> bool:
        try:
            query.plan()
        except error as refused:
            return match in str(refused)
        assert query.is_idle
        return False

    wait_until(is_refused, match)


def read_when_allowed(query: StreamQuery, error: type[Exception], count: int) -> list[str]:
    """Plans until the query has the new route, and reads."""
    bodies: list[str] = []

    def is_allowed() -> bool:
        try:
            bodies.extend(read(query))
        except error:
            return False
        return len(bodies) >= count

    wait_until(is_allowed, "allowed to read")
    return bodies


def names(name: str, count: int) -> list[str]:
    return [f"{name} {number}" for number in range(count)]


def start_again(topic: Topic, change_store: Callable[[Path], object], *, is_stopped: bool = False) -> None:
    """Kills or stops the broker, and starts it again. Meanwhile its store is changed."""
    broker = topic.broker
    if is_stopped:
        broker.stop()
    broker.kill()
    change_store(broker.folder / "store")
    broker.start()
    wait_until(lambda: topic.bounds()[1] >= 10, "served again")


def check_that_lost_messages_are_noticed(topic: Topic, *running: StreamQuery) -> None:
    """The queue has ten messages, and the queries have read 15. It grows, and then also past their offset."""
    first, second = running
    checkpoint = first.end
    topic.send("new", 3)
    with pytest.raises(DataLoss, match="ends at offset 13"):
        topic.start_query(checkpoint).plan()
    assert read(topic.start_query(checkpoint, failOnDataLoss="false")) == names("new", 3)
    assert read(first) == names("new", 3)
    topic.send("newer", 5)
    with pytest.raises(DataLoss, match="a different message at offset 14 from the one that the query has passed there"):
        topic.start_query(checkpoint).plan()
    assert read(topic.start_query(checkpoint, failOnDataLoss="false")) == names("new", 3) + names("newer", 5)
    assert read(second) == names("new", 3) + names("newer", 5)
    assert read(first) == names("newer", 5)


def test_a_topic_that_was_created_again_is_noticed(topic: Topic) -> None:
    running = topic.start_query(failOnDataLoss="false")
    assert read(running) == names("old", 10)
    checkpoint = running.end
    topic.send("planned", 2)
    running.plan()
    topic.cluster.administration.delete_topic(topic.name)
    topic.change()
    wait_until(lambda: topic.bounds() == (0, 0), "empty")
    topic.send("new", 12)
    with pytest.raises(DataLoss, match="a different message at offset 9 from the one that the query has passed there"):
        topic.start_query(checkpoint).plan()
    assert read(topic.start_query(checkpoint, failOnDataLoss="false")) == names("new", 12)
    with pytest.raises(DataLoss, match=r"different message at offset 11 .* a micro-batch that it has not finished"):
        topic.start_query(running.end).reader.partitions(running.start, running.end)


def test_what_a_broker_cleans_up_is_no_rewritten_history(topic: Topic) -> None:
    running = topic.start_query()
    assert read(running) == names("old", 10)
    for code in (CLEAN_EXPIRED_QUEUES, CLEAN_UNUSED_TOPICS, DELETE_EXPIRED_LOG):
        topic.cluster.administration.call(topic.broker.address, code, {})
    topic.send("more", 2)
    assert read(topic.start_query(running.end)) == names("more", 2)
    assert read(running) == names("more", 2)


def test_permissions_that_come_back_are_no_rewritten_history(topic: Topic) -> None:
    """Nobody may write, and then nobody may read."""
    running = topic.start_query(idleWaitMs="0")
    assert read(running) == names("old", 10)
    checkpoint = running.end
    topic.send("more", 2)
    topic.change(perm=READ_ONLY)
    assert read(topic.start_query(checkpoint)) == names("more", 2)
    assert read(running) == names("more", 2)
    topic.change(perm=WRITE_ONLY)
    wait_for_refusal(running, RequestRefused, f"does not allow reading topic {topic.name}")
    with pytest.raises(RequestRefused, match=f"does not allow reading topic {topic.name}"):
        topic.start_query(checkpoint).plan()
    topic.send("unread", 2)
    topic.change(perm=READ_AND_WRITE)
    assert read_when_allowed(running, RequestRefused, 2) == names("unread", 2)
    assert read(topic.start_query(checkpoint)) == names("more", 2) + names("unread", 2)


def test_queues_that_come_back_are_no_rewritten_history(topic: Topic) -> None:
    """A topic has fewer queues to read for a while, and then more than before. Its broker keeps all messages."""
    topic.change(queues=2)
    topic.send("second", 3, queue=1)
    running = topic.start_query(idleWaitMs="0")
    assert read(running) == names("old", 10) + names("second", 3)
    checkpoint = running.end
    topic.change(queues=2, read_queues=1)
    wait_for_refusal(running, DataLoss, f"Queue {topic.name}/broker-a/1 no longer exists")
    with pytest.raises(DataLoss, match=f"Queue {topic.name}/broker-a/1 no longer exists"):
        topic.start_query(checkpoint).plan()
    topic.send("more", 2, queue=1)
    topic.change(queues=3)
    topic.send("third", 1, queue=2)
    rows = names("more", 2) + names("third", 1)
    assert read_when_allowed(running, DataLoss, 3) == rows
    assert read(topic.start_query(checkpoint)) == rows


def test_messages_that_a_compaction_has_dropped_are_no_rewritten_history(
    cluster: ApacheCluster, apache_release: Release
) -> None:
    """The message before the query's offset is one of them."""
    if apache_release is RELEASE_4:
        pytest.skip("4.x has no compaction topics")
    topic = Topic(cluster, f"compacted-{uuid4().hex[:12]}")
    cluster.administration.create_topic(topic.name, 1, attributes={"cleanup.policy": "COMPACTION"})
    topic.send("old", 10, key="k", padding=FILLS_A_THIRD)
    running = topic.start_query()
    assert read(running)[-1] == "old 9"
    checkpoint = running.end
    topic.send("more", 10, key="k", padding=FILLS_A_THIRD)
    wait_until(lambda: min(topic.find_offsets(9), default=9) > 9, "compacted")
    queue = MessageQueue(topic.name, "broker-a", 0)
    assert checkpoint["witnesses"][topic.name]["broker-a"].startswith("0:9:")
    assert running.reader._client().look_at("TOOLS_CONSUMER", {queue: 9}) == {queue: None}
    for query in (topic.start_query(checkpoint), running):
        rows = read(query)
        assert rows[-1] == "more 9"
        assert set(rows) <= set(names("more", 10))


def test_a_tail_that_is_lost_in_a_crash_is_noticed(topic: Topic) -> None:
    """The broker flushes asynchronously: when its machine fails, the end of its log is empty."""
    lost = topic.send("lost", 5)[0]
    running = [topic.start_query(failOnDataLoss="false") for _ in range(2)]
    for query in running:
        assert read(query) == names("old", 10) + names("lost", 5)

    def lose(store: Path) -> None:
        log = min((store / "commitlog").iterdir())  # the next file is empty
        size = log.stat().st_size
        assert lost < size
        os.truncate(log, lost)
        os.truncate(log, size)

    start_again(topic, lose)
    assert topic.bounds() == (0, 10)
    check_that_lost_messages_are_noticed(topic, *running)


@pytest.mark.nightly
def test_a_store_that_was_restored_is_noticed(topic: Topic, tmp_path: Path) -> None:
    running = [topic.start_query(failOnDataLoss="false") for _ in range(2)]
    for query in running:
        assert read(query) == names("old", 10)

    def restore(store: Path) -> None:
        shutil.rmtree(store)
        shutil.copytree(tmp_path / "backup", store)

    start_again(topic, lambda store: shutil.copytree(store, tmp_path / "backup"), is_stopped=True)
    topic.send("gone", 5)
    for query in running:
        assert read(query) == names("gone", 5)  # nothing was rewritten by this restart
    start_again(topic, restore)
    check_that_lost_messages_are_noticed(topic, *running)


@pytest.mark.nightly
def test_a_slave_is_not_believed_and_a_master_that_comes_back_raises_no_alarm(
    start_apache: StartApache,
) -> None:
    topic = Topic(start_apache(make_replicated_cluster), "orders")
    topic.change()
    topic.cluster.wait_for_slaves(topic.name)
    topic.send("old", 10)
    running = topic.start_query(requestTimeoutMs="60000")
    assert read(running) == names("old", 10)
    topic.broker.kill()
    assert read(running) == []
    assert read(topic.start_query(running.end, requestTimeoutMs="60000")) == []
    topic.broker.start()
    topic.broker.wait_for_slave()
    topic.send("more", 2)
    assert read(running) == names("more", 2)
