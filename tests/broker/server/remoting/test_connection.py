"""Connections: several frames at once, one-way requests, and bytes that are no frames."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, decode_command, encode_command

ONEWAY = 2


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with running_broker(remoting=True) as broker:
        host, port = broker.remoting_addresses[0].split(":")
        with socket.create_connection((host, int(port)), 10) as opened:
            yield opened


def request(opaque: int, flag: int = 0, serialization: Serialization = Serialization.BINARY) -> bytes:
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    return encode_command(RemotingCommand(code, opaque=opaque, flag=flag, serialization=serialization))


def receive(connection: socket.socket) -> RemotingCommand:
    with connection.makefile("rb", buffering=0) as file:
        read = file.read
        length = int.from_bytes(read(4) or b"", "big")
        frame = b""
        while len(frame) < length:
            frame += read(length - len(frame)) or b""
    return decode_command(frame)


@pytest.mark.parametrize("serialization", Serialization)
def test_a_response_repeats_the_opaque_and_the_serialization(
    connection: socket.socket, serialization: Serialization
) -> None:
    connection.sendall(request(7, serialization=serialization))
    response = receive(connection)
    assert (response.opaque, response.serialization, response.is_response) == (7, serialization, True)


def test_frames_in_one_write_are_all_answered_but_those_that_are_one_way(connection: socket.socket) -> None:
    connection.sendall(request(1) + request(2, ONEWAY) + request(3))
    assert [receive(connection).opaque, receive(connection).opaque] == [1, 3]


def test_a_frame_that_comes_byte_by_byte(connection: socket.socket) -> None:
    for byte in request(9):
        connection.sendall(bytes([byte]))
    assert receive(connection).opaque == 9


def test_other_protocols_are_disconnected(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
    assert connection.recv(100) == b""
