"""Bytes that are not frames of the remoting protocol, or not commands. Each of them closes the connection."""

from __future__ import annotations

from rmqpull_proto.remoting.frames import FRAME_BYTES_MAX, PREFIX_BYTES


def make_frame(header: bytes, serialization: int = 0) -> bytes:
    """Makes a frame without a body around any header."""
    mark = bytes([serialization]) + len(header).to_bytes(3, "big")
    return (len(mark) + len(header)).to_bytes(PREFIX_BYTES, "big") + mark + header


BAD_FRAMES = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n",
    "gRPC": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "17 MiB": (17 << 20).to_bytes(4, "big") + b"\0\0\0\x04null",
    "one byte too many": (FRAME_BYTES_MAX - PREFIX_BYTES + 1).to_bytes(4, "big") + b"\0\0\0\x04null",
    "a negative length": b"\xff\xff\xff\xff\0\0\0\0",
    "no bytes": b"\0\0\0\0",
    "three bytes": b"\0\0\0\x03abc",
    "no room for a header": b"\0\0\0\x04\0\0\0\0",
    "a header beyond its frame": b"\0\0\0\x08\0\0\0\xff{}{}",
    "a foreign serialization": make_frame(b"{}", 5),
    "a binary header that ends early": make_frame(b"\0\x01\0", 1),
    "no JSON": make_frame(b"{code:106,"),
    "null": make_frame(b"null"),
    "no object": make_frame(b"[106]"),
    "a code that is a text": make_frame(b'{"code":"x"}'),
    "a code of 37 bits": make_frame(b'{"code":99999999999}'),
    "fields that are no object": make_frame(b'{"code":106,"extFields":[1]}'),
    "more after the header": make_frame(b'{"code":106} x'),
}
"""Apache's servers close the connection, too."""

ONLY_BAD_HERE = {
    "the proxy protocol": b"PROXY TCP4 10.0.0.1 10.0.0.2 5 6\r\n",
    "a code in quotation marks": make_frame(b'{"code":"106"}'),
    "a code with a fraction": make_frame(b'{"code":106.7}'),
    "a remark that is a number": make_frame(b'{"code":106,"remark":5}'),
    "a code that is null": make_frame(b'{"code":null}'),
}
"""Apache's servers read these. No client sends them."""
