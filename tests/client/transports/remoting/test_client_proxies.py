"""A client of a real cluster through two of Apache's proxies at one address, one of which is killed."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple
from uuid import uuid4

import pyarrow as pa
import pytest

from processes.apache.cluster import ApacheCluster, make_cluster
from processes.apache.proxy import Proxy
from processes.apache.releases import Release
from processes.forwarder import Forwarder
from rmqpull_client.connection import Connection
from rmqpull_client.model import QueueRange
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from tests.harness.server_kinds import WITHOUT_PROXY
from tests.harness.waiting import wait_until

QUEUES, ROWS, BODY_BYTES = 8, 20_000, 1_000
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def cluster(apache_release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    if apache_release.name in WITHOUT_PROXY:
        pytest.skip(WITHOUT_PROXY[apache_release.name])
    with make_cluster(tmp_path_factory.mktemp("proxies"), release=apache_release) as started:
        yield started


@pytest.fixture(scope="module")
def proxies(cluster: ApacheCluster) -> list[Proxy]:
    return [cluster.start_proxy() for _ in range(2)]


@pytest.fixture
def balancer(proxies: Sequence[Proxy]) -> Iterator[Forwarder]:
    with Forwarder([proxy.remoting_address for proxy in proxies]) as leading:
        yield leading
    for proxy in proxies:
        if not proxy.is_running:
            proxy.start()


@pytest.fixture(params=[True, False], ids=["one address for all", "each names itself"])
def has_one_address(request: pytest.FixtureRequest) -> bool:
    """Proxies name addresses of their own for the brokers, unless ``remotingAccessAddr`` says otherwise: on one machine
    two of them cannot have the same port, so ``brokerAddresses`` stands for that.
    """
    return bool(request.param)


@pytest.fixture
def client(balancer: Forwarder, has_one_address: bool) -> Iterator[BrokerClient]:
    given = f"broker-a={balancer.address}" if has_one_address else ""
    connected = RemotingClient(RemotingChannel(Connection(name_servers=balancer.address, broker_addresses=given)))
    yield connected
    connected.close()


@pytest.fixture
def topic(cluster: ApacheCluster) -> str:
    name = f"proxied-{uuid4().hex[:12]}"
    cluster.administration.create_topic(name, QUEUES)
    return name


def publish(client: BrokerClient, cluster: ApacheCluster, topic: str, numbers: Sequence[int]) -> None:
    """Returns when the rows can be read: a broker adds messages to their queues after its response."""
    bodies = [b"%0*d" % (BODY_BYTES, number) for number in numbers]
    client.publish(topic, pa.record_batch({"body": pa.array(bodies, pa.binary())}))
    cluster.administration.wait_until_in_queues(topic, {one.name: one.address for one in cluster.brokers})


def find_ranges(client: BrokerClient, topic: str) -> list[QueueRange]:
    return [QueueRange(queue, *found) for queue, found in client.query_bounds([topic])[topic].queues.items()]


class Read(NamedTuple):
    """A message: where it is, and the number of its row. Writes are at least once, so a row may be at two places."""

    queue_id: int
    offset: int
    row: int


def read(client: BrokerClient, topic: str) -> Iterator[Read]:
    for step in client.read("readers", find_ranges(client, topic), ["body", "queueOffset"]):
        for entry in step:
            for batch in entry.batches:
                for offset, body in zip(batch["queueOffset"].to_pylist(), batch["body"].to_pylist(), strict=True):
                    yield Read(entry.queue.queue_id, offset, int(body))


def list_rows(client: BrokerClient, topic: str) -> list[int]:
    """Returns the sorted numbers of all rows, each once."""
    return sorted({found.row for found in read(client, topic)})


@pytest.mark.nightly
def test_rows_offsets_and_waits_go_over_both(
    client: BrokerClient, cluster: ApacheCluster, balancer: Forwarder, topic: str, has_one_address: bool
) -> None:
    group = f"group-of-{topic}"
    for first in range(0, 500, 100):
        publish(client, cluster, topic, range(first, first + 100))
        client.close()  # the next request goes over a new connection
    assert list_rows(client, topic) == list(range(500))
    queues = {entry.queue: entry.until_offset for entry in find_ranges(client, topic)}
    for offset in (3, 5):
        client.check_group(group, list(queues))
        client.set_consumer_offsets(group, dict.fromkeys(queues, offset))
        client.close()
        assert client.get_consumer_offsets(group, list(queues)) == dict.fromkeys(queues, offset)
    with ThreadPoolExecutor(1) as waiting:
        found = waiting.submit(client.wait_for_messages, "readers", queues, WAIT_MS)
        publish(client, cluster, topic, [500])
        assert found.result(90)
    if has_one_address:
        assert min(balancer.led.values()) > 1


@pytest.mark.nightly
def test_a_read_goes_on_when_one_is_killed(
    client: BrokerClient, cluster: ApacheCluster, proxies: Sequence[Proxy], topic: str
) -> None:
    publish(client, cluster, topic, range(ROWS))
    rows = read(client, topic)
    found = Counter(itertools.islice(rows, ROWS // 10))
    proxies[0].kill()
    found.update(rows)
    assert set(found.values()) == {1}
    assert found.total() == cluster.administration.count_messages(topic)
    assert {each.row for each in found} == set(range(ROWS))


@pytest.mark.nightly
def test_rows_are_written_at_least_once_when_one_is_killed(
    client: BrokerClient, cluster: ApacheCluster, proxies: Sequence[Proxy], topic: str
) -> None:
    with ThreadPoolExecutor(1) as writing:
        written = writing.submit(publish, client, cluster, topic, range(ROWS))
        wait_until(lambda: cluster.administration.count_messages(topic) > 0, "the first rows")
        proxies[1].kill()
        written.result(180)
    assert list_rows(client, topic) == list(range(ROWS))


@pytest.mark.nightly
def test_a_wait_and_offsets_go_on_when_one_is_killed(
    client: BrokerClient, cluster: ApacheCluster, proxies: Sequence[Proxy], topic: str
) -> None:
    publish(client, cluster, topic, range(50))
    queues = {entry.queue: entry.until_offset for entry in find_ranges(client, topic)}
    group = f"group-of-{topic}"
    with ThreadPoolExecutor(1) as waiting:
        found = waiting.submit(client.wait_for_messages, "readers", queues, WAIT_MS)
        proxies[0].kill()
        client.set_consumer_offsets(group, queues)
        assert client.get_consumer_offsets(group, list(queues)) == queues
        publish(client, cluster, topic, [50])
        assert found.result(90)
    assert list_rows(client, topic) == list(range(51))
