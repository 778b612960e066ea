"""What name servers list: topics, and the brokers that brokerAddresses may name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqpull_client.errors import BrokerFailed, OptionError, Unserved
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_remoting import RouteScript, ScriptedServer, make_route, refuse_code
from tests.harness.waiting import wait_until

ASK = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
MASTER = Target("orders", "broker-a")

Open = Callable[..., RemotingChannel]


def test_topics_are_listed_without_those_of_the_system(connect: Open, routes: RouteScript) -> None:
    routes.clusters = {"DefaultCluster": ("broker-a",)}
    assert connect().listings.list_topics() == ["orders", "shop%orders"]
    assert connect(namespace="shop").listings.list_topics() == ["orders"]


def test_topics_stay_listed_when_a_name_server_has_just_started(
    connect: Open, routes: RouteScript, broker: ScriptedServer, name_server: ScriptedServer
) -> None:
    channel = connect()
    channel.routes.get_route("orders")
    all_routes, routes.routes = routes.routes, {}
    assert channel.listings.list_topics() == ["orders"]
    assert list(channel.routes.get_routes(["orders"])) == ["orders"], "the broker does not say that it is gone"
    broker.script = lambda request: request.make_response(ResponseCode.TOPIC_NOT_EXIST)
    assert channel.listings.list_topics() == ["orders"]
    wait_until(lambda: not channel.routes.get_routes(["orders"]), "dropped, because its broker says so")
    assert connect(request_timeout_ms=1_000).listings.list_topics() == [], "there may be no topics at all"
    routes.routes = all_routes
    with ScriptedServer(RouteScript({})) as empty:
        assert "orders" in connect(name_servers=f"{empty.address};{name_server.address}").listings.list_topics()


def test_a_name_in_broker_addresses_that_no_broker_has_is_told_once(
    connect: Open, broker: ScriptedServer, name_server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    channel = connect(broker_addresses=f"broker-x={broker.address};broker-a={broker.address}")
    for _ in range(2):
        channel.routes.get_route("orders")
    (text,) = [record.getMessage() for record in caplog.records if "brokerAddresses" in record.getMessage()]
    assert "names broker-x, which the cluster" in text
    assert "Its brokers are broker-a." in text
    assert name_server.count(RequestCode.GET_BROKER_CLUSTER_INFO) == 2  # the first one tells whether it is a proxy


@pytest.mark.parametrize("is_listed", [True, False])
def test_names_in_broker_addresses_that_a_broker_has_are_not_told(
    connect: Open, routes: RouteScript, broker: ScriptedServer, caplog: pytest.LogCaptureFixture, is_listed: bool
) -> None:
    """The topic need not be on that broker."""
    if is_listed:
        routes.routes["other"] = make_route({"broker-b": {0: broker.address}})
    name = "broker-b" if is_listed else "broker-a"
    connect(broker_addresses=f"{name}={broker.address}").routes.get_route("orders")
    assert not [record for record in caplog.records if "brokerAddresses" in record.getMessage()]


def test_a_name_server_that_does_not_list_brokers_lets_names_unchecked(
    connect: Open, routes: RouteScript, name_server: ScriptedServer
) -> None:
    name_server.script = lambda request: (
        refuse_code(request) if request.code == RequestCode.GET_BROKER_CLUSTER_INFO else routes(request)
    )
    assert connect(broker_addresses="broker-x=127.0.0.1:1").routes.get_route("orders").list_readable("orders")


def test_a_name_server_that_does_not_list_topics_is_told(connect: Open, name_server: ScriptedServer) -> None:
    name_server.script = lambda request: request.make_response(1, remark="disable")
    with pytest.raises(OptionError, match=r"does not list topics.*Name the topics instead, with option topic"):
        connect().listings.list_topics()
    name_server.script = lambda request: request.make_response(1, remark="java.lang.NullPointerException")
    with pytest.raises(BrokerFailed, match="NullPointerException"):
        connect().listings.list_topics()


@pytest.mark.parametrize("has_topic", [True, False])
def test_a_proxy_is_told_from_a_broker(
    connect: Open, routes: RouteScript, name_server: ScriptedServer, broker: ScriptedServer, has_topic: bool
) -> None:
    """A proxy serves routes, also of topics that do not exist, and neither lists topics nor brokers."""
    if has_topic:
        routes.routes["TBW102"] = make_route({"broker-a": {0: broker.address}})
    name_server.script = lambda request: (
        routes(request) if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC else refuse_code(request)
    )
    with pytest.raises(OptionError, match=r"is a proxy, .*Name the topics instead, with option topic, or set option"):
        connect().listings.list_topics()
    name_server.script = refuse_code
    with pytest.raises(Unserved, match=r"not a name server, perhaps a broker"):
        connect().listings.list_topics()


def test_topics_are_waited_for_while_no_broker_is_registered(connect: Open, routes: RouteScript) -> None:
    """A name server that was started again has no broker for up to 30 s. Only pauses move the clock."""
    now_s = [0.0]
    all_routes, routes.routes = routes.routes, {}

    def sleep(seconds: float) -> None:
        now_s[0] += seconds
        routes.routes = all_routes if now_s[0] >= 40.0 else {}

    channel = connect(clock=lambda: now_s[0], sleep=sleep, server_away_timeout_ms=60_000)
    assert "orders" in channel.listings.list_topics()
    assert now_s[0] >= 40.0


def test_topics_that_are_expected_are_listed(connect: Open, routes: RouteScript) -> None:
    """So a pattern finds them, and their routes tell whether they are gone."""
    routes.routes = {"others": make_route({"broker-a": {0: "127.0.0.1:1"}})}
    channel = connect(namespace="shop")
    channel.cluster.expect("shop%orders", "broker-b")
    assert channel.listings.list_topics() == ["orders"]


def test_only_masters_register_topics(connect: Open, routes: RouteScript) -> None:
    routes.routes = {"orders": make_route({"broker-a": {0: "127.0.0.1:1"}, "broker-b": {1: "127.0.0.1:1"}})}
    assert connect().listings.list_masters() == {"broker-a"}
