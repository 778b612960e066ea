"""What a process has reached travels to another one."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from rmqpull_client.connection import Connection, Tls
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports import reached as module
from rmqpull_client.transports.away import AnsweredServers, make_key
from rmqpull_client.transports.reached import (
    Reached,
    expect_queues,
    list_reached,
    read_routes,
    take_over_reached,
    write_routes,
)
from rmqpull_client.transports.remoting.network import channel as channels
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from tests.harness.scripted_remoting import make_route

CLUSTER = Connection(name_servers="10.0.0.9:9876;10.0.0.8:9876", namespace="shop")
ROUTE = make_route({"broker-a": {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}})


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> AnsweredServers:
    fresh = AnsweredServers()
    monkeypatch.setattr(module, "ANSWERED", fresh)
    return fresh


@pytest.fixture
def channel(monkeypatch: pytest.MonkeyPatch) -> RemotingChannel:
    opened = RemotingChannel(CLUSTER)
    monkeypatch.setattr(channels, "get_remoting_channel", lambda connection: opened)
    return opened


def test_of_a_broker_its_address_travels(answered: AnsweredServers) -> None:
    broker = Connection("10.0.0.1:8081;10.0.0.2:8081")
    answered.update(["10.0.0.2:8081", "10.0.0.7:8081"])
    assert list_reached(broker, ["orders"]) == Reached(("10.0.0.2:8081",))


def test_a_server_that_answers_over_tls_is_none_that_answers_without(answered: AnsweredServers) -> None:
    plain = Connection("10.0.0.1:8081")
    secured = replace(plain, tls=Tls())
    answered.add(make_key(secured, "10.0.0.1:8081"))
    assert list_reached(plain, ()) == Reached()
    assert list_reached(secured, ()) != Reached()


def test_of_a_cluster_routes_travel_too(answered: AnsweredServers, channel: RemotingChannel) -> None:
    answered.update(["10.0.0.9:9876", "10.0.0.2:10911"])
    channel.cluster.learn("shop%orders", ROUTE, 5.0)
    channel.cluster.learn("shop%copies", ROUTE, 5.0)
    found = list_reached(CLUSTER, ["orders", "nothing"])
    assert found == Reached(("10.0.0.9:9876", "10.0.0.2:10911"), {"shop%orders": ROUTE})
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_route_that_was_taken_over_is_asked_for_and_replaces_none(
    answered: AnsweredServers, channel: RemotingChannel
) -> None:
    newer = make_route({"broker-b": {0: "10.0.0.3:10911"}})
    channel.cluster.learn("shop%copies", newer, 5.0)
    take_over_reached(CLUSTER, Reached(("10.0.0.9:9876",), {"shop%orders": ROUTE, "shop%copies": ROUTE}))
    assert "10.0.0.9:9876" in answered
    known = channel.cluster.get_known("shop%orders")
    assert known is not None
    assert known.route == ROUTE
    assert not channel.cluster.is_fresh("shop%orders", 0.0)
    kept = channel.cluster.get_known("shop%copies")
    assert kept is not None
    assert kept.route == newer


def test_routes_that_name_servers_tell_are_written_and_read(channel: RemotingChannel) -> None:
    both = make_route({"broker-a": {0: "10.0.0.1:10911"}, "broker-b": {0: "10.0.0.2:10911"}})
    only_b = make_route({"broker-b": {0: "10.0.0.2:10911"}})
    channel.cluster.learn("shop%orders", both, 0.0)
    channel.cluster.learn("shop%orders", only_b, 1.0)  # broker-a is away now
    channel.cluster.learn("shop%copies", both, 0.0)
    channel.cluster.learn_missing("shop%copies", 1.0)
    texts = write_routes(CLUSTER, ["orders", "copies", "nothing"])
    assert read_routes({**texts, "shop%damaged": b"{"}).routes == {"shop%orders": only_b}
    assert write_routes(Connection("10.0.0.1:8081"), ["orders"]) == {}


def test_queues_that_an_earlier_process_has_read_are_expected(channel: RemotingChannel) -> None:
    channel.cluster.learn("shop%orders", ROUTE, 0.0)
    expect_queues(CLUSTER, [MessageQueue("orders", name, 0) for name in ("broker-a", "broker-b")])
    assert channel.cluster.expected == {"shop%orders": {"broker-b"}}
    expect_queues(Connection("10.0.0.1:8081"), [MessageQueue("orders", "broker-a", 0)])


def test_that_name_servers_are_proxies_travels(answered: AnsweredServers, channel: RemotingChannel) -> None:
    """A process that did not know it would let the proxy drop responses until it has asked."""
    channel.cluster.is_proxied = True
    found = list_reached(CLUSTER, [])
    assert found == Reached(is_proxied=True)
    channel.cluster.is_proxied = None
    take_over_reached(CLUSTER, found)
    assert channel.cluster.is_proxied


def test_what_a_process_has_seen_of_proxies_itself_holds(answered: AnsweredServers, channel: RemotingChannel) -> None:
    channel.cluster.is_proxied = False
    take_over_reached(CLUSTER, Reached(is_proxied=True))
    assert not channel.cluster.is_proxied
