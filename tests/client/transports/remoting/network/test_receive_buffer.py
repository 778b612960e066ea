"""Frames come out of a buffer as they went in, however they arrive; and other bytes never do."""

from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.network.receive_buffer import BUFFER_BYTES, ReceiveBuffer
from rmqpull_proto.remoting.command import RemotingCommand, encode_command
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, WireError


def frame(size: int, number: int) -> bytes:
    return encode_command(RemotingCommand(11, body=bytes([number % 251]) * size, opaque=number))


def arrive(buffer: ReceiveBuffer, content: bytes, chunks: list[int]) -> list[bytes]:
    """Lets bytes arrive in chunks of these sizes in turn. Returns the frames that come out, without their lengths."""
    found: list[bytes] = []
    at = turn = 0
    while at < len(content):
        buffer.make_room()
        chunk = content[at : at + min(chunks[turn % len(chunks)], len(buffer.room))]
        assert chunk, "there is room as long as no frame is whole"
        buffer.room[: len(chunk)] = chunk
        buffer.add(len(chunk))
        at, turn = at + len(chunk), turn + 1
        bounds = buffer.take_frames()
        found += [bytes(buffer.view[start:end]) for start, end in bounds]
    return found


@given(
    st.lists(st.integers(0, 3 * BUFFER_BYTES), max_size=6),
    st.lists(st.integers(1, 2 * BUFFER_BYTES), min_size=1, max_size=5),
    st.integers(0, 4 * BUFFER_BYTES),
)
@example([0, 0, 0], [1], 0)
def test_frames_come_out_as_they_went_in(sizes: list[int], chunks: list[int], reserved: int) -> None:
    frames = [frame(size, number) for number, size in enumerate(sizes)]
    buffer = ReceiveBuffer()
    buffer.reserve(reserved)
    chunks = [max(chunk, sum(sizes) // 1_000) for chunk in chunks]
    assert arrive(buffer, b"".join(frames), chunks) == [each[4:] for each in frames]
    assert buffer.rest == 0
    assert len(buffer.view) <= max(reserved, BUFFER_BYTES, *map(len, frames), 0) * 2


@given(st.binary(max_size=200), st.integers(1, 50))
@example(b"\x00\x00\x00\x09\x00\x00\x00\x05{}123", 3)
def test_any_bytes_are_frames_or_refused_and_take_little_memory(content: bytes, chunk: int) -> None:
    buffer = ReceiveBuffer()
    with contextlib.suppress(WireError):
        arrive(buffer, content, [chunk])
    assert len(buffer.view) <= FRAME_BYTES_MAX
