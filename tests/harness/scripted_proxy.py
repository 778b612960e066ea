"""A script of Apache's proxy: name server and broker at one address, which drops responses that pile up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rmqpull_client.connection import Connection
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_remoting import Reaction, ScriptedServer, make_route, refuse_code

UNSENT_MAX = 64 << 10
"""Netty's default mark, above which a connection is not writable."""


@contextmanager
def serve_proxy(
    broker: Callable[[RemotingCommand], Reaction],
    *,
    topics: tuple[str, ...] = ("orders",),
    queues: int = 4,
    named: str = "",
    timeout_ms: int = 60_000,
) -> Iterator[tuple[RemotingClient, ScriptedServer]]:
    """Serves a broker "broker-a" with topics through a proxy. Yields a client and the proxy.

    Routes name the address ``named``, by default that of the proxy.
    """
    proxy = ScriptedServer(refuse_code)
    route = make_route({"broker-a": {0: named or proxy.address}}, queues)

    def respond(request: RemotingCommand) -> Reaction:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            if request.fields["topic"] in topics:
                return request.make_response(ResponseCode.SUCCESS, body=route.encode())
            return request.make_response(ResponseCode.TOPIC_NOT_EXIST)
        return broker(request)

    proxy.script, proxy.unsent_max = respond, UNSENT_MAX
    settings = Connection(name_servers=proxy.address, request_timeout_ms=timeout_ms, request_retry_interval_ms=1)
    client = RemotingClient(RemotingChannel(settings))
    try:
        with proxy:
            yield client, proxy
    finally:
        client.close()
