"""Routes, topics, namespaces and signatures: what goes to name servers and brokers, and what comes back."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from rmqpull_client.connection import Connection, Credentials
from rmqpull_client.errors import BrokerFailed, BrokerUnavailable, OptionError, TopicNotFound
from rmqpull_client.transports.remoting.network.channel import RemotingChannel, get_remoting_channel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.routes import TopicRoute
from rmqpull_proto.remoting.signing import verify_signature
from tests.harness.scripted_remoting import Act, RouteScript, ScriptedServer, make_route, refuse_code
from tests.harness.waiting import wait_until

ASK = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
MASTER = Target("orders", "broker-a")

Open = Callable[..., RemotingChannel]


@pytest.fixture
def broker() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda request: request.make_response(0, {"offset": "7"})) as server:
        yield server


@pytest.fixture
def routes(broker: ScriptedServer) -> RouteScript:
    route = make_route({"broker-a": {0: broker.address}})
    return RouteScript(
        {"orders": route, "shop%orders": route, "TBW102": route, "DefaultCluster": route, "broker-a": route}
    )


@pytest.fixture
def name_server(routes: RouteScript) -> Iterator[ScriptedServer]:
    with ScriptedServer(routes) as server:
        yield server


@pytest.fixture
def now_s() -> list[float]:
    """How far the clock of the routes is ahead, in a list of one."""
    return [0.0]


@pytest.fixture
def connect(name_server: ScriptedServer, now_s: list[float]) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_channel(**settings: object) -> RemotingChannel:
            connection = Connection(**{"name_servers": name_server.address, **settings})  # type: ignore[arg-type]
            channel = RemotingChannel(connection, lambda: time.monotonic() + now_s[0])
            stack.callback(channel.close)
            return channel

        yield open_channel


def test_topics_are_listed_without_those_of_the_system(connect: Open, routes: RouteScript) -> None:
    routes.clusters = {"DefaultCluster": ("broker-a",)}
    assert connect().list_topics() == ["orders", "shop%orders"]
    assert connect(namespace="shop").list_topics() == ["orders"]


def test_a_name_server_that_has_just_started_hides_no_topic(connect: Open, name_server: ScriptedServer) -> None:
    """It knows a topic when its brokers have registered again, up to 30 s later. Another one knows it all the time."""
    with ScriptedServer(RouteScript({})) as empty:
        channel = connect(name_servers=f"{empty.address};{name_server.address}")
        assert channel.call(MASTER, ASK).fields["offset"] == "7"
        assert empty.count(RequestCode.GET_ROUTEINFO_BY_TOPIC) == 1
        with pytest.raises(TopicNotFound):
            channel.get_route("other")
        empty.stop()
        with pytest.raises(TopicNotFound):
            channel.get_route("other")


def test_topics_stay_listed_when_a_name_server_has_just_started(
    connect: Open, routes: RouteScript, broker: ScriptedServer, name_server: ScriptedServer
) -> None:
    channel = connect()
    channel.get_route("orders")
    all_routes, routes.routes = routes.routes, {}
    assert channel.list_topics() == ["orders"]
    assert list(channel.get_routes(["orders"])) == ["orders"], "the broker does not say that it is gone"
    broker.script = lambda request: request.make_response(ResponseCode.TOPIC_NOT_EXIST)
    assert channel.list_topics() == ["orders"]
    wait_until(lambda: not channel.get_routes(["orders"]), "dropped, because its broker says so")
    assert connect(request_timeout_ms=300).list_topics() == [], "there may be no topics at all"
    routes.routes = all_routes
    with ScriptedServer(RouteScript({})) as empty:
        assert "orders" in connect(name_servers=f"{empty.address};{name_server.address}").list_topics()


def test_names_are_in_the_namespace(connect: Open, name_server: ScriptedServer, broker: ScriptedServer) -> None:
    channel = connect(namespace="shop")
    channel.call(MASTER, RemotingCommand(15, {"topic": "orders", "consumerGroup": "g", "queueId": "0"}))
    channel.call(MASTER, RemotingCommand(320, {"a": "producers", "b": "orders", "c": "TBW102"}))
    assert name_server.requests[0].fields["topic"] == "shop%orders"
    assert broker.requests[0].fields == {"topic": "shop%orders", "consumerGroup": "shop%g", "queueId": "0"}
    assert broker.requests[1].fields == {"a": "shop%producers", "b": "shop%orders", "c": "TBW102"}
    assert channel.get_route("orders").list_readable("orders")[0].topic == "orders"


def test_requests_are_signed(connect: Open, name_server: ScriptedServer, broker: ScriptedServer) -> None:
    channel = connect(credentials=Credentials("reader", "s3cr3t-of-the-tests"), namespace="shop")
    channel.call(MASTER, RemotingCommand(310, {"b": "orders"}, b"body"))
    for request in (*name_server.requests, *broker.requests):
        assert request.fields["AccessKey"] == "reader"
        assert verify_signature(request.fields, request.body, "s3cr3t-of-the-tests", request.version)
        assert "s3cr3t" not in str(request)


def test_routes_of_many_topics_take_one_round_trip(connect: Open, name_server: ScriptedServer) -> None:
    found = connect().get_routes(["orders", "nothing", "TBW102"])
    assert list(found) == ["orders", "TBW102"]
    assert name_server.connections == 1
    assert [request.fields["acceptStandardJsonOnly"] for request in name_server.requests] == ["true"] * 3


def test_an_unknown_topic_is_named(connect: Open) -> None:
    with pytest.raises(TopicNotFound, match=r"no route for topic nothing.*mqadmin updateTopic") as refused:
        connect().get_route("nothing")
    assert refused.value.code == "TOPIC_NOT_EXIST"


def test_a_request_for_an_unknown_topic_waits_for_its_broker(connect: Open, routes: RouteScript) -> None:
    with pytest.raises(TopicNotFound, match="nothing"):
        connect(request_retries=1).call(Target("nothing", "broker-a"), ASK)
    with pytest.raises(BrokerUnavailable, match=r"route of topic orders does not name broker broker-b.*registered at"):
        connect(request_retries=1).call(Target("orders", "broker-b"), ASK)
    routes.routes["orders"] = make_route({"broker-a": {1: "h:1"}})
    with pytest.raises(BrokerUnavailable, match="broker-a has no master now"):
        connect(request_retries=1).call(MASTER, ASK)


def test_a_static_topic_is_refused(connect: Open, name_server: ScriptedServer) -> None:
    body = b'{"queueDatas":[],"brokerDatas":[],"topicQueueMappingByBroker":{"broker-a":{"totalQueues":2}}}'
    assert TopicRoute.decode(body).is_static
    name_server.script = lambda request: request.make_response(0, body=body)
    with pytest.raises(OptionError, match="Topic orders is a static topic"):
        connect().get_route("orders")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"queueDatas":[{"perm":6}]}', b"\xff\xff"])
def test_an_unreadable_route_is_told(connect: Open, name_server: ScriptedServer, body: bytes) -> None:
    name_server.script = lambda request: request.make_response(0, body=body)
    with pytest.raises(BrokerFailed, match=r"name server .* to GET_ROUTEINFO_BY_TOPIC cannot be read"):
        connect().get_route("orders")


def test_routes_are_asked_for_again_after_the_interval(
    connect: Open, name_server: ScriptedServer, now_s: list[float]
) -> None:
    channel = connect(poll_name_server_interval_ms=5_000)
    for now_s[0], requests in ((0.0, 1), (4.0, 1), (5.0, 2), (9.0, 2), (10.0, 3)):
        channel.call(MASTER, ASK)
        assert len(name_server.requests) == requests


def test_a_known_route_is_used_while_all_name_servers_are_away(
    connect: Open, name_server: ScriptedServer, now_s: list[float]
) -> None:
    channel = connect()
    channel.call(MASTER, ASK)
    name_server.stop()
    now_s[0] = 3_600.0
    assert channel.call(MASTER, ASK).fields == {"offset": "7"}
    with pytest.raises(BrokerUnavailable, match="No name server responded"):
        connect(request_retries=0).get_route("orders")


class Restart:
    """A name server that no longer has the topic: its broker restarts, or the topic was deleted."""

    def __init__(self, connect: Open, routes: RouteScript, now_s: list[float]) -> None:
        self.channel = connect()
        self.channel.get_route("orders")
        del routes.routes["orders"]
        now_s[0] = 3_600.0


def test_a_known_topic_is_not_gone_while_its_broker_restarts(
    connect: Open, routes: RouteScript, broker: ScriptedServer, now_s: list[float]
) -> None:
    restart = Restart(connect, routes, now_s)
    broker.stop()
    assert len(restart.channel.get_route("orders").list_readable("orders")) == 4
    broker.start()  # it listens before it registers
    assert restart.channel.get_route("orders").absent == {"broker-a"}
    assert broker.count(RequestCode.GET_TOPIC_STATS_INFO) == 1


def test_a_known_topic_is_gone_when_its_broker_says_so(
    connect: Open, routes: RouteScript, broker: ScriptedServer, now_s: list[float]
) -> None:
    restart = Restart(connect, routes, now_s)
    broker.script = lambda request: request.make_response(ResponseCode.TOPIC_NOT_EXIST, remark="topic not exist")
    with pytest.raises(TopicNotFound):
        restart.channel.get_route("orders")
    assert restart.channel.get_routes(["orders"]) == {}


def test_a_broker_moves(connect: Open, routes: RouteScript, broker: ScriptedServer) -> None:
    channel = connect()
    channel.get_route("orders")
    broker.stop()
    with ScriptedServer(lambda request: request.make_response(0, {"offset": "8"})) as other:
        routes.routes["orders"] = make_route({"broker-a": {0: other.address}})
        assert channel.call(MASTER, ASK).fields == {"offset": "8"}


def test_a_given_address_reaches_a_broker_whose_registered_address_does_not(
    connect: Open, routes: RouteScript, broker: ScriptedServer
) -> None:
    away = ScriptedServer(lambda request: request.make_response(0))
    routes.routes["orders"] = make_route({"broker-a": {0: away.address}})
    with pytest.raises(BrokerUnavailable) as error:
        connect(request_retries=0).call(MASTER, ASK)
    text = str(error.value)
    for part in ("Broker broker-a", away.address, connect().endpoints, "option brokerAddresses", "broker-a=HOST:PORT"):
        assert part in text
    assert connect(broker_addresses=f"broker-a={broker.address}").call(MASTER, ASK).fields == {"offset": "7"}
    with pytest.raises(BrokerUnavailable, match="Option brokerAddresses names this address"):
        connect(broker_addresses=f"broker-a={away.address}", request_retries=0).call(MASTER, ASK)


def test_a_name_in_broker_addresses_that_no_broker_has_is_told_once(
    connect: Open, broker: ScriptedServer, name_server: ScriptedServer, caplog: pytest.LogCaptureFixture
) -> None:
    channel = connect(broker_addresses=f"broker-x={broker.address};broker-a={broker.address}")
    for _ in range(2):
        channel.get_route("orders")
    (text,) = [record.getMessage() for record in caplog.records if "brokerAddresses" in record.getMessage()]
    assert "names broker-x, which the cluster" in text
    assert "Its brokers are broker-a." in text
    assert name_server.count(RequestCode.GET_BROKER_CLUSTER_INFO) == 1


@pytest.mark.parametrize("is_listed", [True, False])
def test_names_in_broker_addresses_that_a_broker_has_are_not_told(
    connect: Open, routes: RouteScript, broker: ScriptedServer, caplog: pytest.LogCaptureFixture, is_listed: bool
) -> None:
    """The topic need not be on that broker."""
    if is_listed:
        routes.routes["other"] = make_route({"broker-b": {0: broker.address}})
    name = "broker-b" if is_listed else "broker-a"
    connect(broker_addresses=f"{name}={broker.address}").get_route("orders")
    assert not [record for record in caplog.records if "brokerAddresses" in record.getMessage()]


def test_a_name_server_that_does_not_list_brokers_lets_names_unchecked(
    connect: Open, routes: RouteScript, name_server: ScriptedServer
) -> None:
    name_server.script = lambda request: (
        refuse_code(request) if request.code == RequestCode.GET_BROKER_CLUSTER_INFO else routes(request)
    )
    assert connect(broker_addresses="broker-x=127.0.0.1:1").get_route("orders").list_readable("orders")


def test_a_broker_that_cannot_be_reached_may_have_its_address_under_a_wrong_name(
    connect: Open, routes: RouteScript, broker: ScriptedServer
) -> None:
    away = ScriptedServer(lambda request: request.make_response(0))
    routes.routes["orders"] = make_route({"broker-a": {0: away.address}})
    with pytest.raises(BrokerUnavailable, match=r"broker-a=HOST:PORT\. That option has entries for broker-x only"):
        connect(broker_addresses=f"broker-x={broker.address}", request_retries=0).call(MASTER, ASK)


def test_a_registered_address_that_nobody_responds_at_is_told_within_the_request_timeout(
    connect: Open, routes: RouteScript
) -> None:
    """As behind a firewall, which drops what a client sends: connections are neither accepted nor refused."""
    with ExitStack() as stack:
        full = stack.enter_context(socket.socket())
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [stack.enter_context(socket.socket()) for _ in range(4)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(address)
        assert not select.select([], waiting[-1:], [], 0.2)[1], "the queue of new connections is full"
        routes.routes["orders"] = make_route({"broker-a": {0: f"127.0.0.1:{address[1]}"}})
        channel = connect(request_timeout_ms=400)
        with pytest.raises(BrokerUnavailable) as error:
            channel.call(MASTER, ASK)
    text = str(error.value)
    for part in (
        "Broker broker-a did not respond to GET_MAX_OFFSET within 400 ms",
        f"127.0.0.1:{address[1]}: ",
        f"The name server at {channel.endpoints} told this address",
        "option brokerAddresses",
        "broker-a=HOST:PORT",
    ):
        assert part in text


def test_a_process_has_one_channel_for_equal_connections() -> None:
    one, other = (Connection(name_servers="localhost:1", request_timeout_ms=ms) for ms in (1, 2))
    assert get_remoting_channel(one) is get_remoting_channel(one)
    assert get_remoting_channel(one) is not get_remoting_channel(other)


def test_a_name_server_that_does_not_list_topics_is_told(connect: Open, name_server: ScriptedServer) -> None:
    name_server.script = lambda request: request.make_response(1, remark="disable")
    with pytest.raises(OptionError, match=r"does not list topics.*Name the topics instead, with option topic"):
        connect().list_topics()
    name_server.script = lambda request: request.make_response(1, remark="java.lang.NullPointerException")
    with pytest.raises(BrokerFailed, match="NullPointerException"):
        connect().list_topics()


def test_a_name_server_at_the_address_of_a_broker_is_told(connect: Open, name_server: ScriptedServer) -> None:
    connect().get_route("orders")
    routes = name_server.script
    # Before 5.0, a name server is silent when it does not know a request.
    name_server.script = lambda request: Act.STALL if request.code == RequestCode.GET_MAX_OFFSET else routes(request)
    with pytest.raises(BrokerUnavailable, match=rf"{name_server.address} is the address of a name server: give"):
        connect(broker_addresses=f"broker-a={name_server.address}", request_timeout_ms=300).call(MASTER, ASK)


def test_a_forked_process_opens_connections_of_its_own(
    name_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(name_servers=name_server.address)
    channels = []
    for process_id in (1, 2, 1):  # a child has the memory of its parent, but another id
        monkeypatch.setattr(os, "getpid", lambda process_id=process_id: process_id)
        channels.append(get_remoting_channel(connection))
        channels[-1].list_topics()
    assert channels[0] is channels[2] is not channels[1]
    assert name_server.connections == 2
    for channel in channels:
        channel.close()
