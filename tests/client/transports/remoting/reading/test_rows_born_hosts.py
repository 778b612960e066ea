"""The born host of a message, whoever has sent it, is what Apache's consumer shows."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.apache.cluster import make_proxied_cluster
from processes.apache.java_clients import JavaProducer
from processes.apache.oracle import to_bytes
from processes.apache.releases import RELEASE_4, Release
from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from tests.client.transports.test_port import GROUP
from tests.clients.programs.grpc.clients import LANGUAGES, GrpcClients
from tests.clients.programs.java.consumer import JavaConsumer


@pytest.mark.apache
@pytest.mark.processes
def test_messages_from_a_proxy_and_from_a_producer(apache_release: Release, tmp_path: Path) -> None:
    """A client of the proxy names its machine; that name is not the born host."""
    if apache_release is RELEASE_4:
        pytest.skip("4.x has no proxy")
    with make_proxied_cluster(tmp_path / "cluster", release=apache_release) as cluster:
        cluster.administration.create_topic("orders", 1, attributes={"message.type": "NORMAL"})
        with GrpcClients(LANGUAGES["python"](tmp_path)) as python:
            python.start("producer", cluster.proxy.address, topics=["orders"]).call(
                "send", topic="orders", body="over the proxy"
            )
        with JavaProducer(apache_release, cluster.addresses, tmp_path / "producer") as producer:
            producer.send("orders", b"classic")
        with JavaConsumer(apache_release, cluster.addresses, tmp_path, "orders", "readers", kind="pull") as consumer:
            shown = {to_bytes(message["body"]): message for message in consumer.read(2)}
        client = connect(Connection(name_servers=cluster.addresses))
        ranges = [QueueRange(MessageQueue("orders", "broker-a", 0), 0, 2)]
        columns = ["body", "bornHost", "systemProperties"]
        rows = [
            row
            for answer in client.read(GROUP, ranges, columns)
            for event in answer
            for batch in event.batches
            for row in batch.to_pylist()
        ]
    assert {row["body"]: row["bornHost"] for row in rows} == {body: one["bornHost"] for body, one in shown.items()}
    named = {row["body"]: dict(row["systemProperties"]).get("__BORNHOST") for row in rows}
    assert (named[b"over the proxy"] is not None, named[b"classic"]) == (True, None)
