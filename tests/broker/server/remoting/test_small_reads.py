"""Frames that come in small pieces."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from rmqpull_broker.server.remoting import small_reads
from rmqpull_broker.server.remoting.connection import LOOKED_AT_BYTES, RemotingConnection
from rmqpull_broker.server.remoting.dispatch import Dispatcher
from rmqpull_broker.server.remoting.small_reads import SMALL_BYTES, SMALL_READS_MAX
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, encode_command
from rmqpull_proto.remoting.frames import PREFIX_BYTES
from tests.harness.remoting_transport import SITE, NoConnections, Recorder, Transport, request


class SlowClient:
    """A client that sends a frame byte by byte, and the connection that reads it, as far as it reads."""

    def __init__(self) -> None:
        self.connections, self.recorder, self.transport = NoConnections(), Recorder(), Transport()
        self.connections.dispatcher = cast("Dispatcher", self.recorder)
        self.connection = RemotingConnection(self.connections, SITE)
        self.connection.connection_made(self.transport)

    async def send(self, frame: bytes, piece_bytes: int = 1) -> int:
        """Sends in pieces, those of a rest together. Returns how many reads that takes."""
        reads, waiting = 0, b""
        for at in range(0, len(frame), piece_bytes):
            waiting += frame[at : at + piece_bytes]
            if at % 256 == 0 or at + piece_bytes >= len(frame):
                for _ in range(2):  # to the end of a rest
                    await asyncio.sleep(0)
            if not self.transport.is_paused:
                self.connection.data_received(waiting)
                reads, waiting = reads + 1, b""
        assert not waiting
        return reads


LONG_FRAME = encode_command(RemotingCommand(RequestCode.SEND_MESSAGE_V2, opaque=7, body=bytes(4 * LOOKED_AT_BYTES)))


def test_a_frame_that_comes_byte_by_byte_is_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_reads, "SMALL_READS_MAX", len(LONG_FRAME))

    async def story() -> None:
        client = SlowClient()
        assert await client.send(LONG_FRAME) == len(LONG_FRAME)
        assert client.recorder.opaques == [7]
        assert client.connections.held_bytes == 0
        # Bytes of an unknown length, steps, and the first and last look.
        assert client.connections.noted <= PREFIX_BYTES + 4 + 2

    asyncio.run(story())


def test_a_connection_rests_while_a_frame_comes_byte_by_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_reads, "REST_S", 0)

    async def story() -> None:
        client = SlowClient()
        reads = await client.send(LONG_FRAME)
        assert client.recorder.opaques == [7]
        assert reads <= SMALL_READS_MAX + len(LONG_FRAME) // 256 + 3
        client.connection.data_received(request(8)[:9])
        assert not client.transport.is_paused  # the next frame begins anew
        client.connection.data_received(request(8)[9:])
        assert client.recorder.opaques == [7, 8]

    asyncio.run(story())


@pytest.mark.parametrize("piece_bytes", [SMALL_BYTES, 300])
def test_a_connection_with_larger_or_few_pieces_never_rests(piece_bytes: int) -> None:
    async def story() -> None:
        client = SlowClient()
        frame = LONG_FRAME if piece_bytes < SMALL_BYTES else LONG_FRAME * 20
        assert await client.send(frame, piece_bytes) == -(-len(frame) // piece_bytes)
        assert not client.transport.is_paused

    asyncio.run(story())
