"""Frames in a buffer: which are complete, and which bytes cannot be a frame."""

from __future__ import annotations

import struct
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.remoting.frames import (
    FRAME_BYTES_MAX,
    FrameTooLarge,
    OtherProtocol,
    WireError,
    read_frame_bytes,
    split_frames,
)
from tests.harness.hostile_input import limit_cpu


def make_frame(header: bytes = b"{}", body: bytes = b"", serialization: int = 0) -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), serialization << 24 | len(header)) + header + body


FRAMES = st.builds(make_frame, st.binary(min_size=1, max_size=40), st.binary(max_size=40), st.sampled_from([0, 1]))


@given(frames=st.lists(FRAMES, max_size=6), before=st.binary(max_size=9), cut=st.integers(0, 99))
def test_whole_frames_are_found_and_the_rest_waits(frames: list[bytes], before: bytes, cut: int) -> None:
    received = memoryview(before + b"".join(frames))
    end = max(len(before), len(received) - cut)
    found = split_frames(received, len(before), end)
    whole = [bytes(received[start - 4 : until]) for start, until in found]
    assert whole == frames[: len(found)]
    assert [until for _, until in found[:-1]] == [start - 4 for start, _ in found[1:]]
    next_start = found[-1][1] if found else len(before)
    assert end - next_start < (len(frames[len(found)]) if len(found) < len(frames) else 1)


def test_the_size_of_a_frame_is_known_after_four_bytes() -> None:
    frame = make_frame(body=bytes(1000))
    assert read_frame_bytes(memoryview(frame), 0, 3) is None
    assert read_frame_bytes(memoryview(frame), 0, 4) == len(frame)


@pytest.mark.parametrize(
    ("seen", "protocol"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP"),
        (b"GET / HTTP/1.1\r\n", "HTTP"),
        (b"<!DOCTYPE HTML>", "HTTP"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "gRPC (HTTP/2)"),
        (bytes.fromhex("00000c04000000000000030000006400040000ffff"), "gRPC (HTTP/2)"),
        (bytes.fromhex("000000040000000000"), "gRPC (HTTP/2)"),
        (bytes.fromhex("0000080700000000000000000000000001"), "gRPC (HTTP/2)"),
        (bytes.fromhex("15030300020228"), "TLS"),
        (bytes.fromhex("160301020001"), "TLS"),
        (b"PROXY TCP4 ", "the proxy protocol"),
    ],
)
def test_other_protocols_are_named(seen: bytes, protocol: str) -> None:
    with pytest.raises(OtherProtocol, match="expected a frame of the remoting protocol") as caught:
        split_frames(memoryview(seen), 0, len(seen))
    assert caught.value.protocol == protocol


@pytest.mark.parametrize(
    ("seen", "error"),
    [
        (struct.pack(">I", FRAME_BYTES_MAX), "a frame has 16777220 bytes, more than the 16777216"),
        (b"\xff\xff\xff\xff", "a frame has 4294967299 bytes"),
        (bytes(4), "a length of 0 bytes, too few"),
        (struct.pack(">I", 4), "a length of 4 bytes, too few"),
        (struct.pack(">II", 20, 17), "a frame of 20 bytes names a header of 17 bytes, expected 1 to 16"),
        (struct.pack(">II", 20, 0), "names a header of 0 bytes"),
        (struct.pack(">II", 20, 2 << 24 | 4), "serialization 2, expected 0"),
    ],
)
def test_a_lying_length_is_refused_before_the_frame_is_there(seen: bytes, error: str) -> None:
    with pytest.raises(WireError, match=error):
        split_frames(memoryview(seen), 0, len(seen))


def test_the_largest_frame_passes_and_a_byte_more_does_not() -> None:
    largest = struct.pack(">II", FRAME_BYTES_MAX - 4, 2)
    assert split_frames(memoryview(largest), 0, 8) == []
    longer = struct.pack(">II", FRAME_BYTES_MAX - 3, 2)
    with pytest.raises(FrameTooLarge):
        split_frames(memoryview(longer), 0, 8)


@pytest.mark.edge
@given(st.binary(max_size=64))
@limit_cpu
def test_any_bytes_give_frames_or_an_error(received: bytes) -> None:
    try:
        found = split_frames(memoryview(received), 0, len(received))
    except WireError:
        return
    assert all(a < b <= len(received) for a, b in found)
    assert all(b <= c for (_, b), (c, _) in pairwise(found))
