"""Routes, clusters and lists of topics, as name servers write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.routes import (
    BrokerData,
    ClusterInfo,
    QueueData,
    TopicList,
    TopicRoute,
    read_topic_attributes,
)

STANDARD = (
    b'{"brokerDatas":[{"brokerAddrs":{"0":"127.0.0.1:10911","1":"127.0.0.1:10921"},"brokerName":"broker-a",'
    b'"cluster":"DefaultCluster","enableActingMaster":false}],"filterServerTable":{},"queueDatas":'
    b'[{"brokerName":"broker-a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":8}]}'
)
ROUTE = TopicRoute(
    (QueueData("broker-a", 4, 8, 6),),
    (BrokerData("DefaultCluster", "broker-a", {0: "127.0.0.1:10911", 1: "127.0.0.1:10921"}),),
)


def test_a_route_in_both_forms() -> None:
    assert TopicRoute.decode(STANDARD) == ROUTE
    assert TopicRoute.decode(STANDARD.replace(b'"0":', b"0:").replace(b'"1":', b"1:")) == ROUTE
    assert ROUTE.encode() == STANDARD


def test_a_route_of_an_ordered_and_of_a_static_topic() -> None:
    ordered = TopicRoute(ROUTE.queue_datas, ROUTE.broker_datas, "broker-a:4")
    assert TopicRoute.decode(STANDARD[:-1] + b',"orderTopicConf":"broker-a:4"}') == ordered
    assert TopicRoute.decode(ordered.encode()) == ordered
    assert TopicRoute.decode(b'{"topicQueueMappingByBroker":{"broker-a":{"topic":"T"}}}') == TopicRoute(is_static=True)
    assert TopicRoute.decode(b'{"topicQueueMappingByBroker":{},"orderTopicConf":""}') == TopicRoute()


def test_a_cluster_has_ids_without_quotes() -> None:
    body = (
        b'{"brokerAddrTable":{"broker-a":{"brokerAddrs":{0:"127.0.0.1:10911"},"brokerName":"broker-a",'
        b'"cluster":"DefaultCluster","enableActingMaster":false}},"clusterAddrTable":{"DefaultCluster":["broker-a"]}}'
    )
    info = ClusterInfo(
        {"broker-a": BrokerData("DefaultCluster", "broker-a", {0: "127.0.0.1:10911"})},
        {"DefaultCluster": ("broker-a",)},
    )
    assert ClusterInfo.decode(body) == info
    assert info.encode() == body.replace(b"{0:", b'{"0":')


def test_a_list_of_topics() -> None:
    assert TopicList.decode(b'{"topicList":["T1","T2"]}') == TopicList(("T1", "T2"))
    assert TopicList.decode(b'{"brokerAddr":null,"topicList":[]}') == TopicList()
    assert TopicList(("T1",), "127.0.0.1:10911").encode() == b'{"brokerAddr":"127.0.0.1:10911","topicList":["T1"]}'


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
INTS = st.integers(-(2**31), 2**31 - 1)
BROKERS = st.builds(
    BrokerData,
    NAMES,
    NAMES,
    st.dictionaries(st.integers(-(2**63), 2**63 - 1), NAMES, max_size=3),
    st.booleans(),
    st.none() | NAMES,
)
ROUTES = st.builds(
    TopicRoute,
    st.lists(st.builds(QueueData, NAMES, INTS, INTS, INTS, INTS), max_size=3).map(tuple),
    st.lists(BROKERS, max_size=3).map(tuple),
    st.none() | NAMES.filter(bool),
)


@given(ROUTES)
def test_a_route_survives(route: TopicRoute) -> None:
    assert TopicRoute.decode(route.encode()) == route


@given(st.dictionaries(NAMES, BROKERS, max_size=3), st.dictionaries(NAMES, st.lists(NAMES, max_size=3).map(tuple)))
def test_a_cluster_survives(brokers: dict[str, BrokerData], clusters: dict[str, tuple[str, ...]]) -> None:
    info = ClusterInfo(brokers, clusters)
    assert ClusterInfo.decode(info.encode()) == info


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"[]", r"the route of a topic is \[\], expected an object"),
        (b'{"queueDatas":{}}', "queueDatas is {}, expected list"),
        (b'{"queueDatas":[7]}', r"queueDatas\[0\] is 7, expected an object"),
        (b'{"queueDatas":[{}]}', r"queueDatas\[0\].brokerName is missing, expected str"),
        (b'{"queueDatas":[{"brokerName":"b","readQueueNums":true}]}', "readQueueNums is True, expected int"),
        (b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"x":""}}]}', "a broker id .* is 'x', expected a number"),
        (b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{--1:""}}]}', "expected a value"),
        (b'{"brokerDatas":[{"brokerName":"b","brokerAddrs":{"0":1}}]}', r"brokerAddrs\['0'\] is 1, expected str"),
        (b'{"orderTopicConf":1}', "orderTopicConf is 1, expected str"),
    ],
)
def test_a_broken_route_is_explained(body: bytes, error: str) -> None:
    with pytest.raises(WireError, match=error):
        TopicRoute.decode(body)


def is_route_or_error(body: bytes) -> bool:
    try:
        TopicRoute.decode(body)
    except WireError as error:
        return len(str(error)) < 400
    return True


@given(ROUTES, st.data())
def test_a_damaged_route_gives_a_route_or_an_error(route: TopicRoute, data: st.DataObject) -> None:
    body = bytearray(route.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from(b'0x"{}[]:,\xff'))
    assert is_route_or_error(bytes(body))


@pytest.mark.parametrize(
    ("body", "attributes"),
    [
        (b'{"attributes":{"message.type":"FIFO"},"topicName":"t"}', {"message.type": "FIFO"}),
        (b'{"attributes":null}', {}),
        (b"{topicName:'t'}", {}),
    ],
)
def test_the_attributes_of_a_topic(body: bytes, attributes: dict[str, str]) -> None:
    assert read_topic_attributes(body) == attributes


@pytest.mark.parametrize("body", [b"", b"[]", b'{"attributes":[1]}', b"<html>"])
def test_other_bodies_have_no_attributes(body: bytes) -> None:
    with pytest.raises(WireError):
        read_topic_attributes(body)
