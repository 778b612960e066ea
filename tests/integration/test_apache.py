"""How a real cluster sees the connector, and what its operator sees and sets (docs/apache.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import SparkSession

from processes.apache.cluster import ApacheCluster
from processes.apache.releases import Release
from tests.clients.programs.java.consumer import JavaConsumer
from tests.clients.programs.java.mqadmin import run_mqadmin
from tests.harness.apache import StartApache
from tests.harness.apache_servers import ApacheServer, start_proxy
from tests.harness.server_kinds import OF_APACHE, PROXY, make_params, needs
from tests.harness.servers import Server
from tests.harness.spark_queries import Queries, Topic, await_end

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.parametrize("kind", make_params(OF_APACHE))


@pytest.fixture
def cluster(server: Server) -> ApacheCluster:
    """The cluster that tests share."""
    assert isinstance(server, ApacheServer)
    return server.cluster


@pytest.fixture
def group(topic: Topic) -> str:
    """A group that no other test uses."""
    return f"readers-of-{topic.name}"


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def list_members(cluster: ApacheCluster, group: str) -> bytes:
    """Returns what brokers say of the members of a group. Without members they refuse the question."""
    broker = cluster.find_broker("broker-a")
    return cluster.administration.call(broker.address, 38, {"consumerGroup": group}, refusals_allowed=(1,)).body


def test_the_examples_of_the_pages(
    spark: SparkSession, server: Server, cluster: ApacheCluster, topic: Topic, tmp_path: Path
) -> None:
    """The README's stream for a cluster, and the copy of docs/apache.md."""
    (of_readme,) = (block for block in python_blocks("README.md") if "nameServers" in block)
    (of_guide,) = python_blocks("docs/apache.md")
    cluster.administration.create_topic("order-copies", 1, "broker-a")
    topic.send(b"one", b"two")
    here = {"127.0.0.1:9876": server.options["nameServers"], "./order-copies": str(tmp_path)}
    here |= {'"flights"': f'"{topic.name}"', '"orders"': f'"{topic.name}"'}
    names: dict[str, Any] = {}
    for shown in (of_readme, of_guide):
        for there, local in here.items():
            shown = shown.replace(there, local)
        exec(shown.replace(".start()", ".trigger(availableNow=True).start()"), names)
    await_end(names["copies"])
    copies = spark.read.format("rmqpull").options(**server.options, topic="order-copies").load()
    assert sorted(bytes(row["body"]) for row in copies.collect()) == [b"one", b"two"]
    assert names["flights"].isStreaming


@needs("members on brokers")
def test_a_query_is_no_member_of_its_group(
    queries: Queries, cluster: ApacheCluster, topic: Topic, group: str, apache_release: Release, tmp_path: Path
) -> None:
    """So a Java consumer that joins the group gets all queues, and the query reads on."""
    topic.send(*[b"x"] * 6)
    run = queries.start(queries.stream(topic, consumerGroup=group, commitOffsets="false"))
    run.process_all()
    assert list_members(cluster, group) == b""
    with JavaConsumer(apache_release, cluster.addresses, tmp_path / "java", topic.name, group) as consumer:
        topic.send(*[b"y"] * 6)
        assert {message["queueId"] for message in consumer.read(12)} == {0, 1, 2}
        assert list_members(cluster, group) != b""
        run.process_all()
    run.query.stop()
    assert len(run.rows) == 12


def test_mqadmin_shows_the_lag_of_a_query(
    queries: Queries, cluster: ApacheCluster, topic: Topic, group: str, apache_release: Release, tmp_path: Path
) -> None:
    topic.send(*[b"x"] * 6)
    queries.run(queries.stream(topic, consumerGroup=group))
    topic.send(*[b"x"] * 3)
    shown = run_mqadmin(apache_release, cluster.addresses, tmp_path / "java", "consumerProgress", "-g", group)
    rows = [line.split() for line in shown.splitlines() if line.startswith(topic.name)]
    assert sorted(row[1:6] for row in rows) == [
        ["broker-a", str(queue), "3", "2", "1"] for queue in range(3)
    ] or sorted(row[1:5] for row in rows) == [["broker-a", str(queue), "3", "2"] for queue in range(3)], shown


def test_a_group_with_members_is_refused_unless_its_offsets_stay_as_they_are(
    queries: Queries, server: Server, topic: Topic, group: str, apache_release: Release, tmp_path: Path
) -> None:
    """A proxy knows the members that use it too."""
    topic.send(*[b"x"] * 3)
    with JavaConsumer(apache_release, server.options["nameServers"], tmp_path / "java", topic.name, group) as consumer:
        consumer.read(3)
        with pytest.raises(StreamingQueryException, match=f"Consumer group {group} has members .* commitOffsets"):
            queries.run(queries.stream(topic, consumerGroup=group))
        again = queries.with_new_checkpoint()
        assert len(again.run(again.stream(topic, consumerGroup=group, commitOffsets="false")).rows) == 3


@pytest.mark.parametrize(
    ("properties", "advice"),
    [
        ({"autoCreateSubscriptionGroup": "false"}, "mqadmin updateSubGroup"),
        pytest.param(
            {"rejectPullConsumerEnable": "true"}, "rejectPullConsumerEnable=false", marks=needs("refusal of pulls")
        ),
    ],
    ids=["groups", "pulls"],
)
def test_a_broker_that_does_not_let_the_connector_pull_is_told_with_advice(
    queries: Queries,
    kind: str,
    start_apache: StartApache,
    properties: dict[str, str],
    advice: str,
) -> None:
    cluster = start_apache(properties=properties)
    server = ApacheServer(cluster, proxy=start_proxy(cluster) if kind == PROXY else None)
    server.create_topic("orders")
    server.send("orders", b"x")
    with pytest.raises(PySparkException, match=advice):
        queries.batch(Topic("orders", server)).collect()


@needs("addresses of brokers")
def test_addresses_of_brokers_can_be_given(queries: Queries, cluster: ApacheCluster, topic: Topic) -> None:
    topic.send(b"x")
    address = cluster.find_broker("broker-a").address
    given = {"brokerAddresses": f"broker-a={address.replace('127.0.0.1', 'localhost')}"}
    assert queries.batch(topic, **given).count() == 1
    away = {"brokerAddresses": "broker-a=127.0.0.1:1", "requestTimeoutMs": "500"}
    with pytest.raises(PySparkException, match=r"(?s)broker-a .*127\.0\.0\.1:1.*brokerAddresses"):
        queries.batch(topic, **away).collect()


def test_larger_responses_are_taken(queries: Queries, cluster: ApacheCluster, topic: Topic) -> None:
    broker = cluster.find_broker("broker-a")
    topic.send(*(b"%03d" % number for number in range(300)))
    larger = {"maxTransferCountOnMessageInMemory": "1024", "maxTransferBytesOnMessageInMemory": str(4 << 20)}
    before = {"maxTransferCountOnMessageInMemory": "32", "maxTransferBytesOnMessageInMemory": str(256 << 10)}
    cluster.administration.update_broker(broker.address, **larger)
    try:
        run = queries.run(queries.stream(topic, pullBatchSize="1024"))
    finally:
        cluster.administration.update_broker(broker.address, **before)
    assert run.bodies == [b"%03d" % number for number in range(300)]
