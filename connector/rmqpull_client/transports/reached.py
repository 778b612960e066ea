"""What one process has reached of a server or a cluster, in a form that can be sent to another process."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from rmqpull_client.connection import Connection, parse_broker_addresses
from rmqpull_client.errors import OptionError
from rmqpull_client.light_queues import find_route_topic
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.away import ANSWERED, make_key
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.routes import TopicRoute


@dataclass(frozen=True)
class Reached:
    """The servers that have answered, by ``make_key``, and for a cluster the routes of topics. It holds no secrets."""

    addresses: tuple[str, ...] = ()
    routes: Mapping[str, TopicRoute] = field(default_factory=dict)
    """By the names of topics on the broker."""
    is_proxied: bool | None = None
    """Whether the name servers are proxies, if that is known."""


def list_reached(connection: Connection, topics: Iterable[str]) -> Reached:
    """Returns what this process has reached over a connection. ``topics`` limits the routes."""
    addresses = [*connection.addresses]
    routes: Mapping[str, TopicRoute] = {}
    is_proxied = None
    if connection.name_servers:
        # Imported here, because gRPC does not need it.
        from rmqpull_client.transports.remoting.network.channel import get_remoting_channel

        cluster = get_remoting_channel(connection).cluster
        is_proxied = cluster.is_proxied
        known = {name: cluster.get_known(name) for name in (find_route_topic(connection, each) for each in topics)}
        routes = {name: found.route for name, found in known.items() if found is not None}
        addresses += parse_broker_addresses(connection.broker_addresses).values() if connection.broker_addresses else ()
        for route in routes.values():
            addresses += (address for data in route.broker_datas for address in data.broker_addrs.values())
    keys = dict.fromkeys(make_key(connection, address) for address in addresses)
    return Reached(tuple(key for key in keys if key in ANSWERED), routes, is_proxied)


def write_routes(connection: Connection, topics: Iterable[str]) -> dict[str, bytes]:
    """Returns the current routes of topics from the name servers, as texts by the names of topics on the broker."""
    if not connection.name_servers:
        return {}
    # Imported here, as above.
    from rmqpull_client.transports.remoting.network.channel import get_remoting_channel

    cluster = get_remoting_channel(connection).cluster
    listed = {name: cluster.get_listed(name) for name in (find_route_topic(connection, each) for each in topics)}
    return {name: route.encode() for name, route in listed.items() if route is not None}


def read_routes(texts: Mapping[str, bytes]) -> Reached:
    """Reverses :func:`write_routes`. Texts that contain no route are left out."""
    routes: dict[str, TopicRoute] = {}
    for name, text in texts.items():
        with suppress(WireError):
            routes[name] = TopicRoute.decode(text)
    return Reached(routes=routes)


def expect_queues(connection: Connection, queues: Iterable[MessageQueue]) -> None:
    """Makes this process wait for the brokers of queues that an earlier process has read, if they are away.

    The servers of ``endpoints`` need no such wait: they know all queues.
    """
    if connection.name_servers:
        # Imported here, as above.
        from rmqpull_client.transports.remoting.network.channel import get_remoting_channel

        cluster = get_remoting_channel(connection).cluster
        for queue in queues:
            with suppress(OptionError):  # a light message queue that is no longer read: no option names its parent
                cluster.expect(find_route_topic(connection, queue.topic), queue.broker_name, queue.queue_id + 1)


def take_over_reached(connection: Connection, reached: Reached) -> None:
    """Makes this process wait for what another one has reached, as if it had reached it itself."""
    ANSWERED.update(reached.addresses)
    if reached.routes or reached.is_proxied is not None:
        # Imported here, as above.
        from rmqpull_client.transports.remoting.network.channel import get_remoting_channel

        cluster = get_remoting_channel(connection).cluster
        if cluster.is_proxied is None:
            cluster.is_proxied = reached.is_proxied
        for name, route in reached.routes.items():
            if cluster.get_known(name) is None:
                cluster.learn(name, route, -math.inf)  # as old as can be, so it is requested again on use
