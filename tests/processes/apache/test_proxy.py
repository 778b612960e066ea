"""Apache's proxy starts beside its cluster, tells clients its own port, and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.apache.cluster import ProxiedCluster, make_proxied_cluster
from processes.apache.releases import Release
from processes.children import LOOPBACK
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import RpcClient


def test_a_proxy_routes_to_its_own_port_and_serves_again_after_a_kill(apache_release: Release, tmp_path: Path) -> None:
    if apache_release.name == "4.9":
        pytest.skip("4.x has no proxy")
    with make_proxied_cluster(tmp_path, release=apache_release) as cluster:
        cluster.administration.create_topic("orders", 2)
        port = cluster.proxy.port
        assert route(cluster) == [("broker-a", port)]
        cluster.proxy.restart()
        assert route(cluster) == [("broker-a", port)]


def route(cluster: ProxiedCluster) -> list[tuple[str, int]]:
    """Returns the brokers of the topic, each with the port that clients connect to."""
    asked = v2.Endpoints(scheme=v2.IPv4, addresses=[v2.Address(host=LOOPBACK, port=cluster.proxy.port)])
    client = RpcClient(cluster.proxy.address)
    answer = client.call("QueryRoute", service.QueryRouteRequest(topic=v2.Resource(name="orders"), endpoints=asked))
    client.channel.close()
    brokers = {queue.broker.name: queue.broker.endpoints.addresses[0].port for queue in answer.message_queues}
    return sorted(brokers.items())
