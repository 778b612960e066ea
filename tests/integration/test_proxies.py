"""A query through two of Apache's proxies at one address. One of them is killed in the middle of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from processes.apache.cluster import ApacheCluster
from processes.apache.proxy import Proxy
from processes.forwarder import Forwarder
from tests.harness.apache import StartApache
from tests.harness.apache_servers import BROKER, ApacheServer, start_proxy
from tests.harness.server_kinds import PROXY, make_params
from tests.harness.spark_queries import Queries, Topic
from tests.harness.waiting import wait_until

ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
ROWS = 20
"""The rows of a part. Each has more than a connection to a proxy may have in flight."""
BODY_BYTES = 200_000


@pytest.fixture(params=make_params([PROXY]))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def cluster(kind: str, start_apache: StartApache) -> ApacheCluster:
    return start_apache()


@pytest.fixture
def proxies(cluster: ApacheCluster) -> list[Proxy]:
    return [start_proxy(cluster) for _ in range(2)]


@pytest.fixture
def balancer(proxies: Sequence[Proxy]) -> Iterator[Forwarder]:
    with Forwarder([proxy.remoting_address for proxy in proxies]) as leading:
        yield leading


class BalancedServer(ApacheServer):
    """A cluster that source and sink reach through a load balancer before proxies."""

    def __init__(self, cluster: ApacheCluster, address: str) -> None:
        super().__init__(cluster)
        self._address_of_all = address

    @property
    def options(self) -> Mapping[str, str]:
        address = self._address_of_all
        return {**super().options, "nameServers": address, "brokerAddresses": f"{BROKER}={address}"}


@pytest.fixture
def server(cluster: ApacheCluster, balancer: Forwarder) -> ApacheServer:
    return BalancedServer(cluster, balancer.address)


@dataclass(frozen=True)
class Gates:
    """Where the tasks of a part hold at their first row until they are let go. Files, because tasks have processes."""

    folder: Path

    def hold(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What tasks do with the column body."""
        for batch in batches:
            part = int(batch["body"][0].as_py()) // ROWS
            (self.folder / f"has-begun-{part}").touch()
            wait_until((self.folder / f"goes-on-{part}").exists, "let go")
            yield batch

    def wait_for_task(self, part: int) -> None:
        wait_until((self.folder / f"has-begun-{part}").exists, "read the first row")

    def let_go(self, part: int) -> None:
        (self.folder / f"goes-on-{part}").touch()


def send(topic: Topic, part: int) -> None:
    topic.send(*(b"%03d" % number + bytes(BODY_BYTES) for number in range(part * ROWS, (part + 1) * ROWS)))


def test_a_query_reads_each_row_once_when_one_is_killed_in_mid_read(
    spark: SparkSession,
    queries: Queries,
    server: ApacheServer,
    proxies: Sequence[Proxy],
    balancer: Forwarder,
    tmp_path: Path,
) -> None:
    """First the one with more connections, then the other one. Meanwhile one of them serves."""
    server.create_topics({"balanced": 2})
    topic = Topic("balanced", server)
    gates = Gates(tmp_path)
    stream = queries.stream(topic, consumerGroup="g", pullThresholdSizeForTopic="1")
    send(topic, 0)
    spark.conf.set(ROWS_PER_BATCH, 1)
    try:
        run = queries.start(stream.selectExpr("substr(body, 1, 3) AS body").mapInArrow(gates.hold, "body BINARY"))
        gates.wait_for_task(0)
        first, second = sorted(proxies, key=lambda proxy: -balancer.count_open(proxy.remoting_address))
        assert balancer.count_open(first.remoting_address) > 0
        first.kill()
        gates.let_go(0)
        run.wait_until(lambda: len(run.rows) >= ROWS, "read through the second one")
        first.start()
        send(topic, 1)
        gates.wait_for_task(1)
        second.kill()
        gates.let_go(1)
        run.wait_until(lambda: len(run.rows) >= 2 * ROWS, "read through the first one")
        gates.let_go(2)
        send(topic, 2)
        run.process_all()
        run.query.stop()
    finally:
        spark.conf.unset(ROWS_PER_BATCH)
    assert run.bodies == [b"%03d" % number for number in range(3 * ROWS)]
    assert topic.committed("g") == topic.ends()
    assert min(balancer.led[proxy.remoting_address] for proxy in proxies) > 0
