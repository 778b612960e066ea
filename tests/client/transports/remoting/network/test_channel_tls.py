"""Encrypted connections, and what a wrong configuration of either side shows."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqpull_client.connection import Connection, Tls
from rmqpull_client.errors import BrokerUnavailable, HandshakeFailed
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_remoting import RouteScript, ScriptedServer, make_route
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
    text = "name server 127.0.0.1.*does not speak TLS on this port: use another port, or no TLS"
    with pytest.raises(HandshakeFailed, match=text):
        ask(serve(), Tls(str(authority.ca_file)))


def test_no_tls_to_a_server_with_tls(serve: Serve, authority: CertificateAuthority) -> None:
    with pytest.raises((HandshakeFailed, BrokerUnavailable), match=r"requires TLS.*enable it \(option tlsEnabled\)"):
        ask(serve(authority.issue("server", "127.0.0.1")), None)
