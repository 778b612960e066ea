"""One connection, against a server that responds from a script."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from rmqpull_client.transports.remoting.network.connections import BrokerConnection, Cause, ConnectionLost, wait_for
from rmqpull_proto.remoting.command import RemotingCommand, decode_command, encode_command
from tests.harness.scripted_remoting import Act, Reaction, ScriptedServer
from tests.harness.waiting import WAIT_S


def echo(request: RemotingCommand) -> RemotingCommand:
    return request.make_response(0, request.fields, bytes(request.body))


def drive(
    connection: BrokerConnection, count: int = 1, when_silent: Callable[[], None] | None = None
) -> list[RemotingCommand]:
    """Sends what is to be sent and receives this many frames. ``when_silent`` is called when nothing arrives."""
    found: list[RemotingCommand] = []
    until_s = time.monotonic() + WAIT_S
    while len(found) < count:
        assert time.monotonic() < until_s, f"{len(found)} of {count} frames"
        connection.flush()
        if not wait_for([connection], 0.1 if when_silent else WAIT_S) and when_silent:
            when_silent()
        found += [decode_command(bytes(connection.buffer[start:end])) for start, end in connection.receive()]
    return found


def request(opaque: int, body: bytes = b"") -> bytes:
    return encode_command(RemotingCommand(11, {"n": str(opaque)}, body, opaque))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_requests_go_out_together_and_each_is_responded_to(host: str) -> None:
    with ScriptedServer(echo, host=host) as server:
        connection = BrokerConnection(server.address)
        connection.send(*[request(number) for number in range(1_000)])
        responses = drive(connection, 1_000)
        assert connection.has_received
        assert [response.opaque for response in responses] == list(range(1_000))
        assert connection.is_open
        assert connection.is_alive()
        connection.close()
        assert connection.is_closed


def test_a_host_name_is_tried_at_each_of_its_addresses() -> None:
    with ScriptedServer(echo) as server:
        connection = BrokerConnection(f"localhost:{server.port}")  # it may be ::1 first, where nobody listens
        connection.send(request(1))
        assert drive(connection)[0].opaque == 1
        connection.close()


def test_a_frame_may_be_larger_than_the_buffer_and_the_buffer_shrinks_again() -> None:
    large = bytes(range(256)) * 12_000
    with ScriptedServer(echo) as server:
        connection = BrokerConnection(server.address)
        connection.send(request(1, large), request(2))
        first, second = drive(connection, 2)
        assert bytes(first.body) == large
        connection.send(request(3))
        assert drive(connection)[0].opaque == 3
        assert len(connection.buffer) < len(large)
        assert second.opaque == 2
        connection.close()


def fail(server: ScriptedServer) -> ConnectionLost:
    connection = BrokerConnection(server.address)
    connection.send(request(1))
    with pytest.raises(ConnectionLost) as lost:
        drive(connection)
    assert connection.is_closed
    return lost.value


@pytest.mark.parametrize(
    ("reaction", "cause", "text"),
    [
        (Act.CLOSE, Cause.CLOSED, "the server closed the connection"),
        (b"\0\0\1\0\0\0", Cause.CLOSED, "in the middle of a frame, after 6 of its bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Cause.OTHER_PROTOCOL, "HTTP"),
        (b"\x7f\xff\xff\xff\0\0\0\0", Cause.OTHER_PROTOCOL, "more than the"),
        (b"\0\0\0\x20\0\0\0\x40", Cause.OTHER_PROTOCOL, "a header of 64 bytes"),
        (encode_command(RemotingCommand(0)) + b"\0\0\0\x20\0\0\0\x40", Cause.BAD_FRAME, "a header of 64 bytes"),
    ],
)
def test_what_ends_a_connection_is_told(reaction: Reaction, cause: Cause, text: str) -> None:
    with ScriptedServer(lambda _: reaction) as server:
        connection = BrokerConnection(server.address)
        connection.send(request(1))
        with pytest.raises(ConnectionLost, match=text) as lost:
            drive(connection, 2, server.close_connections)
        assert lost.value.cause is cause
        assert connection.is_closed


def test_nobody_listens() -> None:
    server = ScriptedServer(echo)
    assert fail(server).cause is Cause.NOT_CONNECTED
    with pytest.raises(ConnectionLost, match=r"host no\.such\.host\.invalid has no address") as lost:
        BrokerConnection("no.such.host.invalid:9876")
    assert lost.value.cause is Cause.NOT_CONNECTED


def test_an_idle_connection_notices_that_the_server_has_closed_it() -> None:
    with ScriptedServer(echo) as server:
        connection = BrokerConnection(server.address)
        connection.send(request(1))
        drive(connection)
        assert connection.is_alive()
        server.close_connections()
        wait_for([connection], WAIT_S)
        assert not connection.is_alive()
        assert connection.is_closed
