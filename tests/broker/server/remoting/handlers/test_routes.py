"""What the broker answers as a name server."""

from __future__ import annotations

import pytest

from processes.apache.calls import CallRefused, Calls
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.routes import BrokerData, ClusterInfo, QueueData, TopicList, TopicRoute

BROKERS = ("broker-a", "broker-b")


def test_a_route_names_the_port_of_each_broker() -> None:
    with running_broker({"orders": 3}, brokers=BROKERS, remoting=True) as broker:
        name_server, other = broker.remoting_addresses
        body = Calls().call(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}).body
        assert TopicRoute.decode(body) == TopicRoute(
            tuple(QueueData(name, 3, 3, 6) for name in BROKERS),
            (
                BrokerData("DefaultCluster", "broker-a", {0: name_server}),
                BrokerData("DefaultCluster", "broker-b", {0: other}),
            ),
        )


def test_an_unknown_topic_has_no_route() -> None:
    with running_broker(remoting=True) as broker, pytest.raises(CallRefused) as refused:
        Calls().call(broker.remoting_addresses[0], RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "unknown"})
    assert refused.value.code == ResponseCode.TOPIC_NOT_EXIST


def test_the_cluster_and_its_topics() -> None:
    with running_broker({"orders": 3}, remoting=True) as broker:
        address = broker.remoting_addresses[0]
        info = ClusterInfo.decode(Calls().call(address, RequestCode.GET_BROKER_CLUSTER_INFO).body)
        topics = TopicList.decode(Calls().call(address, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER).body)
    assert info.clusters == {"DefaultCluster": ("broker-a",)}
    assert info.brokers["broker-a"].broker_addrs == {0: address}
    assert "orders" in topics.topics
