"""Users with exactly the rights that docs/apache.md names, on a real cluster that checks access keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest

from processes.apache.access import Account
from processes.apache.cluster import ApacheCluster, make_guarded_cluster
from processes.apache.releases import Release
from rmqpull_client.connection import Connection, Credentials
from rmqpull_client.errors import RequestRefused
from rmqpull_client.model import SQL92, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect, get_producer
from rmqpull_client.transports.port import BrokerClient, Producer

QUEUE = MessageQueue("orders", "broker-a", 0)
READERS = "readers"


def make_account(name: str, topic: str = "", group: str = "") -> Account:
    topics, groups = {"orders": topic} if topic else {}, {READERS: group} if group else {}
    return Account(name, f"secret-of-{name}", topics=topics, groups=groups)


@pytest.fixture(scope="module")
def guarded(apache_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    """A cluster with topic "orders", of one queue with one message, and with accounts by what they may do."""
    to_read = "SUB" if apache_release.has_acl_file else "SUB|GET"
    accounts = [
        make_account("may-read", to_read, "SUB"),
        make_account("lacks-the-group", to_read),
        make_account("lacks-the-topic", group="SUB"),
        make_account("may-write", "PUB"),
    ]
    with make_guarded_cluster(tmp_path_factory.mktemp("guarded"), accounts, apache_release) as cluster:
        cluster.administration.create_topic("orders", 1)
        cluster.administration.send(cluster.brokers[0].address, "orders", b"one")
        yield cluster


def make_connection(guarded: ApacheCluster, user: str) -> Connection:
    return Connection(name_servers=guarded.addresses, credentials=Credentials(user, f"secret-of-{user}"))


@pytest.fixture
def connect_as(guarded: ApacheCluster) -> Iterator[Callable[[str], BrokerClient]]:
    clients: list[BrokerClient] = []

    def connect_user(user: str) -> BrokerClient:
        clients.append(connect(make_connection(guarded, user)))
        return clients[-1]

    yield connect_user
    for client in clients:
        client.close()


def read(client: BrokerClient) -> list[bytes]:
    steps = client.read(READERS, [QueueRange(QUEUE, 0, 1)], ["body"])
    batches = [batch for step in steps for entry in step for batch in entry.batches]
    return [bytes(body) for batch in batches for body in batch.column("body").to_pylist()]


def send(producer: Producer, count: int) -> None:
    producer.start_publish([("orders", count)], pa.record_batch({"body": [b"more"] * count}), False)()


def test_a_reader_needs_its_topic_and_its_group(connect_as: Callable[[str], BrokerClient]) -> None:
    """For everything that options can ask for: times, filters, groups and their offsets."""
    reader = connect_as("may-read")
    assert reader.list_topics() == ["orders"]
    assert reader.query_bounds(["orders"])["orders"].queues[QUEUE].min_offset == 0
    assert reader.find_offsets_at({QUEUE: 5}, READERS) == {QUEUE: 0}
    for message_filter in (MessageFilter("red"), MessageFilter("price > 1", SQL92)):
        reader.check_filter(READERS, QUEUE, 0, message_filter)
    assert reader.wait_for_messages(READERS, {QUEUE: 0}, 10_000)
    assert read(reader) == [b"one"]
    reader.check_group(READERS, [QUEUE])
    reader.set_consumer_offsets(READERS, {QUEUE: 1})
    assert reader.get_consumer_offsets(READERS, [QUEUE]) == {QUEUE: 1}


@pytest.mark.parametrize("user", ["lacks-the-group", "lacks-the-topic", "may-write"])
def test_who_lacks_a_right_to_read_is_told_which_ones_are_needed(
    connect_as: Callable[[str], BrokerClient], user: str
) -> None:
    with pytest.raises(
        RequestRefused, match=r"Grant the user .* SUB on topic and group to read, and with the access l"
    ):
        read(connect_as(user))


def test_a_writer_needs_its_topic(guarded: ApacheCluster) -> None:
    """4.x does not check batches of messages, but the topic is asked about first, and single messages are checked."""
    writer = get_producer(make_connection(guarded, "may-write"))
    assert "NORMAL" in writer.query_message_types("orders")
    for count in (1, 3):
        send(writer, count)
    with pytest.raises(RequestRefused, match=r"Grant the user .* PUB on the topic to write"):
        send(get_producer(make_connection(guarded, "may-read")), 1)
