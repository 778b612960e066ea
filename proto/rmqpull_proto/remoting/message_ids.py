"""Ids of messages: the broker's, made of a place in its commit log, and the client's (rules 4.9)."""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import NamedTuple

from rmqpull_proto.remoting.frames import WireError

_PLACE = struct.Struct(">iq")
_OFFSET_BYTES = 8
_UNIQUE = struct.Struct(">HIIH")
_IP_BYTES = (4, 16)
_HEX_DIGITS = frozenset("0123456789abcdefABCDEF")


class OffsetMsgId(NamedTuple):
    """An id that a broker gives: its address, and the physical offset of the message in its commit log."""

    host: str
    port: int
    physical_offset: int


class UniqKey(NamedTuple):
    """An id that a client of the remoting protocol gives."""

    host: str
    pid: int
    """The low 16 bits of the process id."""
    loader_hash: int
    """In Java the hash of a class loader, 32 bits: it tells clients in one process from each other."""
    month_ms: int
    """Milliseconds since the start of the client's month, 32 bits."""
    counter: int
    """A counter of 16 bits."""


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


def make_uniq_key(host: str, pid: int, loader_hash: int, month_ms: int, counter: int) -> str:
    """Returns an id as Apache's clients make it. Numbers are cut to their size, see ``UniqKey``."""
    numbers = _UNIQUE.pack(pid & 0xFFFF, loader_hash & 0xFFFFFFFF, month_ms & 0xFFFFFFFF, counter & 0xFFFF)
    return (_pack_address(host) + numbers).hex().upper()


def parse_uniq_key(msg_id: str) -> UniqKey | None:
    """Reads an id that a client of the remoting protocol gave; None for a text of another form, as of gRPC clients."""
    raw = _read_hex(msg_id, _UNIQUE.size)
    if raw is None:
        return None
    address = raw[: -_UNIQUE.size]
    return UniqKey(str(ip_address(address)), *_UNIQUE.unpack_from(raw, len(address)))


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
