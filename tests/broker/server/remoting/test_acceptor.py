"""Connections with and without TLS on one port, told apart by their first byte (rules 4.12)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from rmqpull_broker.core.clients import handshakes
from rmqpull_broker.server.remoting import acceptor
from rmqpull_broker.server.remoting.acceptor import Acceptor
from tests.harness.secured_proxy import CertificateAuthority


class Echo(asyncio.Protocol):
    """Sends back what it gets."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@dataclass
class Port:
    number: int

    async def ask(self, tls: ssl.SSLContext | None = None, text: bytes = b"hello") -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.number, ssl=tls)
        writer.write(text)
        try:
            return await reader.read(100)
        except ConnectionResetError:
            return b""  # as closed as without the reset
        finally:
            writer.close()


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None, needs_tls: bool = False) -> AsyncIterator[Port]:
    bound = socket.create_server(("127.0.0.1", 0))
    bound.setblocking(False)
    accepting = Acceptor(bound, Echo, tls, needs_tls)
    accepting.start()
    try:
        yield Port(bound.getsockname()[1])
    finally:
        accepting.close()


@pytest.fixture
def server_tls(authority: CertificateAuthority) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("localhost"))
    return context


@pytest.fixture
def client_tls() -> ssl.SSLContext:
    """As Apache's clients do it by default: the certificate is not checked."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def test_without_tls_each_connection_is_plain() -> None:
    async def run() -> None:
        async with listening() as port:
            assert await port.ask() == b"hello"

    asyncio.run(run())


def test_one_port_serves_plain_and_secured_connections(server_tls: ssl.SSLContext, client_tls: ssl.SSLContext) -> None:
    async def run() -> None:
        async with listening(server_tls) as port:
            assert await port.ask() == b"hello"
            assert await port.ask(client_tls) == b"hello"

    asyncio.run(run())


def test_where_tls_is_needed_plain_connections_are_closed(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def run() -> None:
        async with listening(server_tls, needs_tls=True) as port:
            assert await port.ask(client_tls) == b"hello"
            assert await port.ask() == b""

    asyncio.run(run())


def test_a_handshake_that_fails_closes_its_connection_alone(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext
) -> None:
    async def run() -> None:
        async with listening(server_tls) as port:
            answer = await port.ask(text=b"\x16\x03\x01\x00\x05hello")
            assert answer[:1] in (b"", b"\x15")  # at most an alert of TLS
            assert await port.ask(client_tls) == b"hello"

    asyncio.run(run())


def test_connections_that_say_nothing_are_closed(
    server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(acceptor, "HANDSHAKE_S_MAX", 0.05)

    async def run() -> None:
        async with listening(server_tls) as port:
            silent = [await asyncio.open_connection("127.0.0.1", port.number) for _ in range(3)]
            assert [await reader.read() for reader, _ in silent] == [b"", b"", b""]
            for _, writer in silent:
                writer.close()
            assert await port.ask() == b"hello"

    asyncio.run(run())


async def read_all(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""  # as closed as without the reset


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
def test_connections_that_say_too_little_keep_nobody_out(
    said: bytes, server_tls: ssl.SSLContext, client_tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The oldest ones are closed, whether they say nothing or begin a handshake that they do not end."""
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 2)
    monkeypatch.setattr(acceptor, "HANDSHAKE_S_MAX", 600)

    async def run() -> None:
        async with listening(server_tls) as port:
            streams = [await asyncio.open_connection("127.0.0.1", port.number) for _ in range(2)]
            for _, writer in streams:
                writer.write(said)
            assert await port.ask(client_tls) == b"hello"
            assert await port.ask() == b"hello"
            oldest, _ = streams[0]
            assert await asyncio.wait_for(read_all(oldest), 10) == b""
            for _, writer in streams:
                writer.close()

    asyncio.run(run())


def test_a_client_that_leaves_before_its_first_byte(server_tls: ssl.SSLContext) -> None:
    async def run() -> None:
        async with listening(server_tls) as port:
            with socket.create_connection(("127.0.0.1", port.number)):
                pass
            assert await port.ask() == b"hello"

    asyncio.run(run())
