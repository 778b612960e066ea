"""Frames of remoting, in a buffer of received bytes (rules 4.1).

    | length: 4 | serialization: 1 | header length: 3 | header | body |

Numbers are big-endian. ``length`` counts everything after itself.
"""

from __future__ import annotations

import struct

FRAME_BYTES_MAX = 16 << 20
"""The largest frame with its length that a server of RocketMQ accepts (rules 4.1)."""
PREFIX_BYTES = 4
"""The bytes of ``length``."""
HEADER_BYTES_MAX = (1 << 24) - 1

_LENGTH = struct.Struct(">I")
_LENGTHS = struct.Struct(">II")
_SERIALIZATIONS = 2
_OTHER_PROTOCOLS = (
    (
        "HTTP",
        (b"HTTP", b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"CONN", b"PATC", b"<!DO", b"<htm", b"<HTM"),
    ),
    ("gRPC (HTTP/2)", (b"PRI ",)),
    ("TLS", tuple(bytes((record, 3, minor)) for record in (0x14, 0x15, 0x16, 0x17) for minor in range(5))),
    ("the proxy protocol", (b"PROX", b"\r\n\r\n")),
)


class WireError(ValueError):
    """Received bytes, or what should be sent, do not follow the remoting protocol. The text says what was seen."""


class FrameTooLarge(WireError):
    """A frame is larger than ``FRAME_BYTES_MAX``, or the received bytes only look like the length of one."""


class OtherProtocol(WireError):
    """The received bytes are of another protocol, named by ``protocol``: ``HTTP``, ``gRPC (HTTP/2)`` or ``TLS``."""

    def __init__(self, protocol: str, seen: bytes) -> None:
        super().__init__(f"expected a frame of the remoting protocol, but the bytes {seen!r} are {protocol}")
        self.protocol = protocol


def split_frames(buffer: memoryview, start: int, end: int) -> list[tuple[int, int]]:
    """Finds the whole frames in the received bytes ``buffer[start:end]``.

    Returns the bounds of each frame without its length, as ``decode_command`` takes it. The next frame begins at the
    end of the last one, or at ``start`` if there is none. Raises ``WireError`` as soon as the bytes cannot be a frame,
    even before the frame is complete.
    """
    found: list[tuple[int, int]] = []
    read_lengths = _LENGTHS.unpack_from
    while end - start >= _LENGTHS.size:
        length, mark = read_lengths(buffer, start)
        frame_end = start + PREFIX_BYTES + length
        if (
            frame_end - start > FRAME_BYTES_MAX
            or mark >> 24 >= _SERIALIZATIONS
            or not (0 < mark & HEADER_BYTES_MAX <= length - PREFIX_BYTES)
        ):
            raise _explain(buffer, start, end)
        if frame_end > end:
            return found
        found.append((start + PREFIX_BYTES, frame_end))
        start = frame_end
    if end - start >= PREFIX_BYTES:
        read_frame_bytes(buffer, start, end)
    return found


def read_frame_bytes(buffer: memoryview, start: int, end: int) -> int | None:
    """Returns the size in bytes, length included, of the frame that begins at ``start``; None if it is not known yet.

    Raises ``WireError`` if a frame cannot have this length.
    """
    if end - start < PREFIX_BYTES:
        return None
    (length,) = _LENGTH.unpack_from(buffer, start)
    if not PREFIX_BYTES < length <= FRAME_BYTES_MAX - PREFIX_BYTES:
        raise _explain(buffer, start, end)
    return PREFIX_BYTES + int(length)


def _explain(buffer: memoryview, start: int, end: int) -> WireError:
    """Says what is wrong with the first bytes of a frame."""
    seen = bytes(buffer[start : min(end, start + 16)])
    for protocol, beginnings in _OTHER_PROTOCOLS:
        if seen.startswith(beginnings):
            return OtherProtocol(protocol, seen)
    (length,) = _LENGTH.unpack_from(seen)
    mark = int.from_bytes(seen[4:8], "big")
    # A server of HTTP/2 begins with SETTINGS (type 4) or GOAWAY (7): 3 bytes of length, the type, no flags, stream 0.
    # As a frame of remoting that is a command without a header.
    if len(seen) >= 8 and length & 0xFF in (4, 7) and not mark:
        return OtherProtocol("gRPC (HTTP/2)", seen)
    if length > FRAME_BYTES_MAX - PREFIX_BYTES:
        return FrameTooLarge(
            f"a frame has {PREFIX_BYTES + length} bytes, more than the {FRAME_BYTES_MAX} of the remoting protocol; "
            f"it begins with {seen!r}"
        )
    if length <= PREFIX_BYTES:
        return WireError(f"a frame names a length of {length} bytes, too few for a command; it begins with {seen!r}")
    if mark >> 24 >= _SERIALIZATIONS:
        return WireError(f"a frame names serialization {mark >> 24}, expected 0 (JSON) or 1 (binary): {seen!r}")
    return WireError(
        f"a frame of {length} bytes names a header of {mark & HEADER_BYTES_MAX} bytes, expected 1 to {length - 4}"
    )
