"""The administration of a name server (rules 4.4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from processes.apache.calls import CallRefused, Calls, Response
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.json_dialect import read_json
from rmqpull_proto.remoting.routes import TopicList, TopicRoute

BROKERS = ("broker-a", "broker-b")


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 1}, brokers=BROKERS, remoting=True) as running:
        yield running


def ask(broker: RunningBroker, code: int, body: Any = b"", **fields: Any) -> Response:
    return Calls().call(broker.remoting_addresses[0], code, fields, body)


def list_names(broker: RunningBroker, code: int, **fields: Any) -> set[str]:
    return set(TopicList.decode(ask(broker, code, **fields).body).topics)


def read_route(broker: RunningBroker) -> TopicRoute:
    return TopicRoute.decode(ask(broker, RequestCode.GET_ROUTEINFO_BY_TOPIC, topic="orders").body)


def test_lists_of_topics(broker: RunningBroker) -> None:
    everything = list_names(broker, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
    assert {"orders", "TBW102"} <= everything
    assert list_names(broker, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="DefaultCluster") == everything
    assert list_names(broker, RequestCode.GET_TOPICS_BY_CLUSTER, cluster="another") == set()
    assert list_names(broker, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {*BROKERS, "DefaultCluster"}
    for code in (
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):
        assert list_names(broker, code) == set()


def test_a_broker_that_may_not_be_written_to(broker: RunningBroker) -> None:
    def read_permissions() -> dict[str, int]:
        return {data.broker_name: data.perm for data in read_route(broker).queue_datas}

    wiped = ask(broker, RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="broker-b")
    assert int(wiped.fields["wipeTopicCount"]) > 1
    assert read_permissions() == {"broker-a": 6, "broker-b": 4}
    assert ask(broker, RequestCode.ADD_WRITE_PERM_OF_BROKER, brokerName="broker-b").fields["addTopicCount"] != "0"
    assert read_permissions() == {"broker-a": 6, "broker-b": 6}
    assert ask(broker, RequestCode.WIPE_WRITE_PERM_OF_BROKER, brokerName="x").fields == {"wipeTopicCount": "0"}


def test_the_brokers_with_a_name(broker: RunningBroker) -> None:
    fields = {"clusterName": "DefaultCluster", "brokerName": "broker-b"}
    group = read_json(ask(broker, RequestCode.GET_BROKER_MEMBER_GROUP, **fields).body)["brokerMemberGroup"]
    assert group["brokerAddrs"] == {"0": broker.remoting_addresses[1]}


@pytest.mark.proves("REGISTER_BROKER and the like")
def test_other_brokers_cannot_register(broker: RunningBroker) -> None:
    with pytest.raises(CallRefused, match="other brokers cannot register") as refused:
        ask(broker, RequestCode.REGISTER_BROKER, brokerName="broker-c")
    assert refused.value.code == ResponseCode.NO_PERMISSION


def test_values_are_put_and_deleted(broker: RunningBroker) -> None:
    where = {"namespace": "space", "key": "key"}
    ask(broker, RequestCode.PUT_KV_CONFIG, **where, value="value")
    assert ask(broker, RequestCode.GET_KV_CONFIG, **where).fields["value"] == "value"
    table = ask(broker, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="space").body
    assert read_json(table) == {"table": {"key": "value"}}
    ask(broker, RequestCode.DELETE_KV_CONFIG, **where)
    with pytest.raises(CallRefused, match="No config item, Namespace: space Key: key") as refused:
        ask(broker, RequestCode.GET_KV_CONFIG, **where)
    assert refused.value.code == ResponseCode.QUERY_NOT_FOUND
    with pytest.raises(CallRefused, match="No config item, Namespace: other"):
        ask(broker, RequestCode.GET_KVLIST_BY_NAMESPACE, namespace="other")


def test_routes_tell_the_order_of_a_topic_if_the_name_server_shall(broker: RunningBroker) -> None:
    ask(broker, RequestCode.PUT_KV_CONFIG, namespace="ORDER_TOPIC_CONFIG", key="orders", value="broker-a:1")
    assert read_route(broker).order_topic_conf is None
    ask(broker, RequestCode.UPDATE_NAMESRV_CONFIG, b"orderMessageEnable=true")
    assert b"orderMessageEnable=true" in ask(broker, RequestCode.GET_NAMESRV_CONFIG).body
    assert read_route(broker).order_topic_conf == "broker-a:1"


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        (b"kvConfigPath=/x", ResponseCode.NO_PERMISSION, "black list"),
        (b"clusterTest=true", ResponseCode.INVALID_PARAMETER, "this name server has no property clusterTest"),
        (b"orderMessageEnable=1", ResponseCode.INVALID_PARAMETER, "'1': use true or false"),
    ],
)
def test_other_changes_of_properties_are_refused(broker: RunningBroker, line: bytes, code: int, words: str) -> None:
    with pytest.raises(CallRefused, match=words) as refused:
        ask(broker, RequestCode.UPDATE_NAMESRV_CONFIG, line)
    assert refused.value.code == code
