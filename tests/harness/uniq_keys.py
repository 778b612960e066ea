"""Ids of messages that clients of the remoting protocol give, as Apache's clients read them (rules 4.9)."""

from __future__ import annotations

import struct
from ipaddress import ip_address
from typing import NamedTuple

_NUMBERS = struct.Struct(">HIIH")


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


def parse_uniq_key(msg_id: str) -> UniqKey:
    """Reads an id that a client of the remoting protocol gave. Raises ValueError for a text of another form."""
    raw = bytes.fromhex(msg_id)
    address = raw[: -_NUMBERS.size]
    return UniqKey(str(ip_address(address)), *_NUMBERS.unpack_from(raw, len(address)))
