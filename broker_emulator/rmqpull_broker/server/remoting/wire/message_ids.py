"""Ids of messages that a broker gives, made of a place in its commit log (rules 4.9)."""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from rmqpull_proto.remoting.frames import WireError

_PLACE = struct.Struct(">iq")
_OFFSET_BYTES = 8
_IP_BYTES = (4, 16)
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class OffsetMsgId(NamedTuple):
    """An id that a broker gives: its address, and the physical offset of the message in its commit log."""

    host: str
    port: int
    physical_offset: int


def make_offset_msg_id(host: str, port: int, physical_offset: int) -> str:
    """Returns the id of the message at a physical offset. ``host`` is an IPv4 or IPv6 address of the broker."""
    try:
        return (_pack_address(host) + _PLACE.pack(port, physical_offset)).hex().upper()
    except struct.error:
        raise WireError(f"port {port} or physical offset {physical_offset} does not fit a message id") from None


def make_offset_msg_ids(host: str, port: int, first: int, count: int) -> list[str]:
    """Returns the ids of messages at consecutive physical offsets, the first of them at ``first``."""
    place = make_offset_msg_id(host, port, first)[: -2 * _OFFSET_BYTES]
    return [f"{place}{offset:016X}" for offset in range(first, first + count)]


def parse_offset_msg_id(msg_id: str) -> OffsetMsgId:
    """Reads an id that a broker gave. Raises ``WireError`` for any other text."""
    raw = _read_hex(msg_id, _PLACE.size)
    if raw is None:
        raise WireError(f"{msg_id[:80]!r} is no message id of a broker: expected 32 or 56 hexadecimal digits")
    address = raw[: -_PLACE.size]
    return OffsetMsgId(str(ip_address(address)), *_PLACE.unpack_from(raw, len(address)))


@lru_cache(maxsize=256)
def _pack_address(host: str) -> bytes:
    try:
        address: IPv4Address | IPv6Address = ip_address(host)
    except ValueError:
        raise WireError(f"{host!r} is no IPv4 or IPv6 address, which a message id needs") from None
    # Java knows an IPv4 address also in its IPv6 form.
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).packed


def _read_hex(text: str, numbers_bytes: int) -> bytes | None:
    """Returns the bytes of an id whose numbers follow an address; None if the text has another form."""
    sizes = [2 * (ip_bytes + numbers_bytes) for ip_bytes in _IP_BYTES]
    # ``fromhex`` would skip blanks.
    return bytes.fromhex(text) if len(text) in sizes and _HEX_DIGITS.issuperset(text) else None
