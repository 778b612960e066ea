"""Encrypted connections, and what a wrong configuration of either side shows."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqpull_client.connection import Connection, Tls
from rmqpull_client.errors import BrokerUnavailable, HandshakeFailed
from rmqpull_client.transports.away import CLOSINGS_MAX
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_remoting import Act, Reaction, RouteScript, ScriptedServer, make_route
from tests.harness.secured_proxy import CertificateAuthority

LARGE = bytes(range(256)) * 20_000

Serve = Callable[..., ScriptedServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that responds with the body of the request, perhaps with a certificate."""
    with ExitStack() as stack:

        def start(files: tuple[Path, Path] | None = None, client_ca: Path | None = None) -> ScriptedServer:
            context = None
            if files is not None:
                context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca)
                context.load_cert_chain(*files)
                context.verify_mode = ssl.CERT_NONE if client_ca is None else ssl.CERT_REQUIRED
            routes = RouteScript({})
            server = ScriptedServer(
                lambda request: (
                    routes(request) if request.code < 300 else request.make_response(0, body=bytes(request.body))
                ),
                context,
            )
            stack.enter_context(server)
            routes.routes["orders"] = make_route({"broker-a": {0: server.address}})
            return server

        yield start


def ask(server: ScriptedServer, tls: Tls | None, address: str = "", timeout_ms: int = 10_000) -> int:
    """Asks for a route and sends a large request. Returns the size of the response."""
    connection = Connection(
        name_servers=address or server.address, tls=tls, request_timeout_ms=timeout_ms, request_retries=1
    )
    channel = RemotingChannel(connection)
    try:
        response = channel.call(Target("orders", "broker-a"), RemotingCommand(310, {"b": "orders"}, LARGE))
        return len(response.body)
    finally:
        channel.close()


def test_requests_and_responses_are_encrypted(serve: Serve, authority: CertificateAuthority) -> None:
    server = serve(authority.issue("server", "127.0.0.1"))
    assert ask(server, Tls(str(authority.ca_file))) == len(LARGE)


def test_both_sides_show_a_certificate(serve: Serve, authority: CertificateAuthority) -> None:
    server = serve(authority.issue("server", "127.0.0.1"), authority.ca_file)
    cert_file, key_file = authority.issue("client")
    assert ask(server, Tls(str(authority.ca_file), str(cert_file), str(key_file))) == len(LARGE)
    with pytest.raises((HandshakeFailed, BrokerUnavailable), match="client certificate"):
        ask(server, Tls(str(authority.ca_file)))


def test_a_certificate_is_for_a_host(serve: Serve, authority: CertificateAuthority) -> None:
    server = serve(authority.issue("server", "localhost"))
    with pytest.raises(
        HandshakeFailed, match="for another host: name the host of the certificate in option nameServers"
    ):
        ask(server, Tls(str(authority.ca_file)))
    text = (
        "broker broker-a at 127.0.0.1.*for another host: name the host of the certificate with option brokerAddresses"
    )
    with pytest.raises(HandshakeFailed, match=text):
        ask(server, Tls(str(authority.ca_file)), f"localhost:{server.port}")


@pytest.mark.parametrize(
    ("has_expired", "trusts", "text"),
    [
        (False, False, "certificate verify failed.*Check the CA file"),
        (True, True, "expired.*Renew the server's certificate"),
    ],
)
def test_a_certificate_must_be_valid(
    serve: Serve,
    authority: CertificateAuthority,
    has_expired: bool,
    trusts: bool,
    text: str,
) -> None:
    server = serve(authority.issue("server", "127.0.0.1", is_expired=has_expired))
    with pytest.raises(HandshakeFailed, match=text):
        ask(server, Tls(str(authority.ca_file)) if trusts else Tls())


def test_tls_to_a_server_without_tls(serve: Serve, authority: CertificateAuthority) -> None:
    text = "name server 127.0.0.1.*does not speak TLS on this port: use another port, or turn TLS off"
    with pytest.raises(HandshakeFailed, match=text):
        ask(serve(), Tls(str(authority.ca_file)))


def test_no_tls_to_a_server_with_tls(serve: Serve, authority: CertificateAuthority) -> None:
    with pytest.raises((HandshakeFailed, BrokerUnavailable), match=r"requires TLS.*enable it \(option tlsEnabled\)"):
        ask(serve(authority.issue("server", "127.0.0.1")), None)


@pytest.mark.parametrize(
    ("tls", "text"),
    [
        (None, "name server 127.0.0.1.*4 connections in a row.*require TLS.*set option tlsEnabled"),
        (Tls(), "No TLS connection to the name server 127.0.0.1.*does not speak TLS on this port"),
    ],
)
def test_a_server_that_closes_each_connection_at_once_is_not_retried_until_the_request_timeout(
    tls: Tls | None, text: str
) -> None:
    """Apache's servers close a connection without a word if it is plain and should not be, or the other way round."""
    with ScriptedServer(lambda request: Act.CLOSE) as server:
        server.is_closing_at_once = True
        channel = RemotingChannel(Connection(name_servers=server.address, tls=tls, request_timeout_ms=60_000))
        with pytest.raises(HandshakeFailed, match=text):
            channel.listings.list_brokers()
        assert server.connections == CLOSINGS_MAX


def test_a_server_that_has_answered_over_tls_is_not_waited_for_without_it(
    serve: Serve, authority: CertificateAuthority
) -> None:
    """It closes plain connections without a word, as Apache's does, and would always do so."""
    server = serve(authority.issue("server", "127.0.0.1"))
    assert ask(server, Tls(str(authority.ca_file))) == len(LARGE)
    server.is_closing_at_once = True
    channel = RemotingChannel(Connection(name_servers=server.address))
    with pytest.raises(HandshakeFailed, match=r"4 connections in a row.*require TLS.*set option tlsEnabled"):
        channel.listings.list_brokers()


def test_a_server_that_has_answered_before_may_close_connections_for_a_while(serve: Serve) -> None:
    server = serve()
    channel = RemotingChannel(
        Connection(name_servers=server.address, request_timeout_ms=60_000, request_retry_interval_ms=1)
    )
    target, command = Target("orders", "broker-a"), RemotingCommand(310, {"b": "orders"}, b"ping")
    assert channel.call(target, command).body == b"ping"
    script, closings = server.script, []

    def close_often(request: RemotingCommand) -> Reaction:
        closings.append(request.code)
        return Act.CLOSE if len(closings) <= 3 * CLOSINGS_MAX else script(request)

    server.script = close_often
    assert channel.call(target, command).body == b"ping"
    channel.close()
