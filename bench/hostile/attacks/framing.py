"""Bytes that are not frames of the remoting protocol, and frames that are costly to read."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import cycle, repeat

from bench.hostile.attack import Attack, Target
from bench.hostile.lines import PAUSE_S, Line, flood, make_frame, open_socket
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import REQUEST_HEADER_BYTES_MAX
from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX

_HALF_FRAMES = 60
_SLOW_LINES = 1_000
_BINARY = 1
_PART = bytes(1 << 16)


def half_frames(target: Target) -> Iterator[None]:
    """Sends frames of 16 MB without their last bytes, over many connections."""
    start = make_frame(b"{}", bytes(FRAME_BYTES_MAX - 64))[:64]
    opened: dict[socket.socket, int] = {}
    yield
    while True:
        with suppress(OSError):
            while len(opened) < _HALF_FRAMES:
                one = open_socket(target.remoting)
                one.sendall(start)
                one.setblocking(False)
                opened[one] = FRAME_BYTES_MAX - 200_000
        sent = 0
        for one in [*opened]:
            try:
                count = one.send(_PART[: max(0, opened[one])]) if opened[one] > 0 else 0
                opened[one] -= count
                sent += count
            except BlockingIOError:
                pass
            except OSError:
                del opened[one]
                one.close()
        time.sleep(0 if sent else PAUSE_S)
        yield


def slow_bytes(target: Target) -> Iterator[None]:
    """Sends frames byte by byte, over many connections."""
    frame = make_frame(b'{"code":105}', bytes(100_000))
    lines = [Line(target.remoting) for _ in range(_SLOW_LINES)]
    for line in lines:
        line.send(frame[:20])
    yield
    for at in cycle(range(20, len(frame) - 1)):
        for line in lines:
            line.send(frame[at : at + 1])
        yield


def large_header(target: Target) -> Iterator[None]:
    """Sends a number of 15 MB as a header."""
    return flood(target.remoting, repeat(make_frame(b'{"code":' + b"0" * 15_000_000 + b"}")), window=1)


def header_of_zeros(target: Target) -> Iterator[None]:
    """Sends the longest header that is read, with one number."""
    return flood(target.remoting, repeat(_fill_header(b'{"code":105,"opaque":1', b"0", b"}")))


def header_of_fields(target: Target) -> Iterator[None]:
    """Sends the longest header that is read, with as many fields as it can have."""
    fields = b",".join(b'"%x":"%x"' % (number, number) for number in range(4_096))
    return flood(target.remoting, repeat(make_frame(b'{"code":105,"opaque":1,"extFields":{' + fields + b"}}")))


def header_in_brackets(target: Target) -> Iterator[None]:
    """Sends the longest header that is read, full of open brackets."""
    return flood(target.remoting, repeat(_fill_header(b'{"code":105,"extFields":', b"[", b"")))


def header_in_dialect(target: Target) -> Iterator[None]:
    """Sends the longest header that is read, in fastjson's dialect: without quotation marks and with comments."""
    return flood(target.remoting, repeat(_fill_header(b"{code:105,opaque:1,extFields:{a:'b',", b"c:'d',", b"}}")))


def binary_fields(target: Target) -> Iterator[None]:
    """Sends the longest binary header, full of the shortest fields."""
    fixed = RequestCode.GET_ROUTEINFO_BY_TOPIC.to_bytes(2, "big") + bytes(1) + bytes(2) + bytes(4) + bytes(4) + bytes(4)
    count = (REQUEST_HEADER_BYTES_MAX - len(fixed) - 4) // 8
    entries = (b"\0\1a" + (1).to_bytes(4, "big") + b"b") * count
    return flood(target.remoting, repeat(make_frame(fixed + len(entries).to_bytes(4, "big") + entries, b"", _BINARY)))


def random_bytes(target: Target) -> Iterator[None]:
    """Sends bytes that are not frames at all, and frames with random headers."""
    frames = [make_frame(os.urandom(size), b"", size % 2) for size in range(1, 200)]
    frames += [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\xff" * 64]
    frames += [b"\x16\3\1" + os.urandom(64)]
    return flood(target.remoting, cycle(frames), window=1)


def stray_responses(target: Target) -> Iterator[None]:
    """Sends responses to requests that the broker never made."""
    return flood_without_answers(target.remoting, make_frame(b'{"code":0,"flag":1,"opaque":7}'))


def flood_without_answers(address: str, frame: bytes, lines: int = 4) -> Iterator[None]:
    """Sends a frame that has no response, 64 at a time."""
    opened = [Line(address) for _ in range(lines)]
    yield
    while True:
        for line in opened:
            line.send(frame * 64)
        yield


def _fill_header(begin: bytes, middle: bytes, end: bytes) -> bytes:
    room = REQUEST_HEADER_BYTES_MAX - len(begin) - len(end)
    return make_frame(begin + middle * (room // len(middle)) + end)


_HEADER = "size of a header"
FRAMING = (
    Attack("half-frames", "60 frames of 16 MB without their last bytes", "bytes of unfinished requests", half_frames),
    Attack("slow-bytes", "1,000 frames, byte by byte", "time of an unfinished request", slow_bytes),
    Attack("large-header", "headers of 15 MB, full of zeros", _HEADER, large_header),
    Attack("header-zeros", "headers of 256 KB with one number", "digits of a number", header_of_zeros),
    Attack("header-fields", "headers with 4,096 fields", "fields of a header", header_of_fields),
    Attack("header-brackets", "headers of 256 KB of open brackets", "nesting of JSON", header_in_brackets),
    Attack("header-dialect", "headers of 256 KB in fastjson's dialect", "values of a header", header_in_dialect),
    Attack("binary-fields", "binary headers of 256 KB with the shortest fields", "fields of a header", binary_fields),
    Attack("random-bytes", "random headers, HTTP, TLS and zeros", "each closes its connection", random_bytes),
    Attack("stray-responses", "responses that nobody waits for", "they are dropped", stray_responses),
)
