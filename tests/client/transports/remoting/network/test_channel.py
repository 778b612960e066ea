"""Routes, topics, namespaces and signatures: what goes to name servers and brokers, and what comes back."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from rmqpull_client.connection import Connection, Credentials
from rmqpull_client.errors import BrokerUnavailable, TopicNotFound
from rmqpull_client.transports.remoting.network.channel import RemotingChannel, get_remoting_channel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.signing import compute_signature
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_remoting import Act, RouteScript, ScriptedServer, make_route

ASK = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
MASTER = Target("orders", "broker-a")

Open = Callable[..., RemotingChannel]


def test_names_are_in_the_namespace(connect: Open, name_server: ScriptedServer, broker: ScriptedServer) -> None:
    channel = connect(namespace="shop")
    channel.call(MASTER, RemotingCommand(15, {"topic": "orders", "consumerGroup": "g", "queueId": "0"}))
    channel.call(MASTER, RemotingCommand(320, {"a": "producers", "b": "orders", "c": "TBW102"}))
    assert name_server.requests[0].fields["topic"] == "shop%orders"
    for request, names in zip(
        broker.requests,
        (
            {"topic": "shop%orders", "consumerGroup": "shop%g", "queueId": "0"},
            {"a": "shop%producers", "b": "shop%orders", "c": "TBW102"},
        ),
        strict=True,
    ):
        assert names.items() <= request.fields.items()
    assert channel.routes.get_route("orders").list_readable("orders")[0].topic == "orders"


@pytest.mark.parametrize(("code", "name"), [(30, "bname"), (310, "n"), (320, "n"), (36, "bname"), (46, "bname")])
def test_requests_to_a_broker_name_it(
    connect: Open, name_server: ScriptedServer, broker: ScriptedServer, code: int, name: str
) -> None:
    """Apache's proxy passes them on to that broker. In a namespace, the name of a broker stays."""
    connect(namespace="shop").call(MASTER, RemotingCommand(code, {"a": "producers", "b": "orders"}))
    assert broker.requests[0].fields[name] == "broker-a"
    assert not any({"bname", "n"} & request.fields.keys() for request in name_server.requests)


def test_requests_are_signed(connect: Open, name_server: ScriptedServer, broker: ScriptedServer) -> None:
    channel = connect(credentials=Credentials("reader", "s3cr3t-of-the-tests"), namespace="shop")
    channel.call(MASTER, RemotingCommand(310, {"b": "orders"}, b"body"))
    for request in (*name_server.requests, *broker.requests):
        assert request.fields["AccessKey"] == "reader"
        assert compute_signature(request.fields, request.body, "s3cr3t-of-the-tests") == request.fields["Signature"]
        assert "s3cr3t" not in str(request)


def test_a_request_for_an_unknown_topic_waits_for_its_broker(connect: Open, routes: RouteScript) -> None:
    with pytest.raises(TopicNotFound, match="nothing"):
        connect(request_retries=1).call(Target("nothing", "broker-a"), ASK)
    with pytest.raises(BrokerUnavailable, match=r"route of topic orders does not name broker broker-b.*registered at"):
        connect(request_retries=1).call(Target("orders", "broker-b"), ASK)
    routes.routes["orders"] = make_route({"broker-a": {1: "h:1"}})
    with pytest.raises(BrokerUnavailable, match="broker-a has no master now"):
        connect(request_retries=1).call(MASTER, ASK)


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
    with pytest.raises(BrokerUnavailable, match=r"is running, then the port \(option brokerAddresses\)"):
        connect(broker_addresses=f"broker-a={away.address}", request_retries=0).call(MASTER, ASK)


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
        f"The name server at {channel.endpoints} gave this address",
        "option brokerAddresses",
        "broker-a=HOST:PORT",
    ):
        assert part in text


def test_a_process_has_one_channel_for_equal_connections() -> None:
    one, other = (Connection(name_servers="localhost:1", request_timeout_ms=ms) for ms in (1, 2))
    assert get_remoting_channel(one) is get_remoting_channel(one)
    assert get_remoting_channel(one) is not get_remoting_channel(other)


def test_a_name_server_at_the_address_of_a_broker_is_told(connect: Open, name_server: ScriptedServer) -> None:
    connect().routes.get_route("orders")
    routes = name_server.script
    # Before 5.0, a name server is silent when it does not know a request.
    name_server.script = lambda request: Act.STALL if request.code == RequestCode.GET_MAX_OFFSET else routes(request)
    with pytest.raises(BrokerUnavailable, match=rf"{name_server.address} is the address of a name server: give"):
        connect(broker_addresses=f"broker-a={name_server.address}", request_timeout_ms=1_000).call(MASTER, ASK)


def test_a_forked_process_opens_connections_of_its_own(
    name_server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection(name_servers=name_server.address)
    channels = []
    for process_id in (1, 2, 1):  # a child has the memory of its parent, but another id
        monkeypatch.setattr(os, "getpid", lambda process_id=process_id: process_id)
        channels.append(get_remoting_channel(connection))
        channels[-1].listings.list_topics()
    assert channels[0] is channels[2] is not channels[1]
    assert name_server.connections == 2
    for channel in channels:
        channel.close()


def test_of_a_broker_that_is_its_own_name_server_no_other_address_is_asked_for(
    connect: Open, routes: RouteScript, name_server: ScriptedServer
) -> None:
    """As rmqpull-broker with --remoting, whose route named its address."""
    routes.routes["orders"] = make_route({"broker-a": {0: name_server.address}})
    asked = name_server.script
    name_server.script = lambda request: Act.CLOSE if request.code == RequestCode.GET_MAX_OFFSET else asked(request)
    with pytest.raises(BrokerUnavailable, match="has answered before: check that the broker is running") as error:
        connect(request_retries=1).call(MASTER, ASK)
    assert "brokerAddresses" not in str(error.value)
