"""Stored messages in the body of a response, field by field, read apart from the product (rules 4.7)."""

from __future__ import annotations

import socket
import struct
from typing import Any

_NAMES = "magic crc queueId flag queueOffset physicalOffset sysFlag bornTimestamp".split()  # noqa: SIM905
_BORN_IPV6, _STORE_IPV6 = 16, 32
_SHORT_TOPIC = 0xDAA320A7


def read_records(data: bytes) -> list[dict[str, Any]]:
    """Returns the fields of each message. What cannot be read is one field, ``unread``."""
    records, at = [], 0
    while at < len(data):
        try:
            (size,) = struct.unpack_from(">i", data, at)
            records.append(_read_record(data[at : at + size]) if size > 0 else {"unread": data[at:].hex()})
        except (struct.error, ValueError, OSError):
            return [*records, {"unread": data[at:].hex()}]
        at += max(size, 1)
    return records


def _read_record(data: bytes) -> dict[str, Any]:
    found = dict(zip(_NAMES, struct.unpack_from(">IIiiqqiq", data, 4), strict=True))
    found["bornHost"], at = _read_host(data, 48, found["sysFlag"] & _BORN_IPV6)
    (found["storeTimestamp"],) = struct.unpack_from(">q", data, at)
    found["storeHost"], at = _read_host(data, at + 8, found["sysFlag"] & _STORE_IPV6)
    found["reconsumeTimes"], found["preparedTransactionOffset"], body_size = struct.unpack_from(">iqi", data, at)
    at += 16
    found["body"], at = data[at : at + body_size], at + body_size
    form = ">B" if found["magic"] == _SHORT_TOPIC else ">H"
    (topic_size,) = struct.unpack_from(form, data, at)
    at += struct.calcsize(form)
    found["topic"], at = data[at : at + topic_size].decode(), at + topic_size
    (size,) = struct.unpack_from(">H", data, at)
    text, at = data[at + 2 : at + 2 + size].decode(errors="replace"), at + 2 + size
    pairs = (pair.partition("\1")[::2] for pair in text.split("\2"))
    # Clients put them into a map, so their order is no part of a message. Clients drop entries without name or value.
    return found | {"properties": {name: value for name, value in pairs if name and value}, "after": data[at:]}


def _read_host(data: bytes, at: int, is_ipv6: int) -> tuple[str, int]:
    size = 16 if is_ipv6 else 4
    host = socket.inet_ntop(socket.AF_INET6 if is_ipv6 else socket.AF_INET, data[at : at + size])
    (port,) = struct.unpack_from(">i", data, at + size)
    return f"{host}:{port}", at + size + 4
