"""Stored messages as bytes, built field by field, and responses of many of them."""

from __future__ import annotations

import ipaddress
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rmqpull_client.transports.remoting.messages.record_numbers import Ints

_BEFORE_HOSTS = struct.Struct(">iIIiiqqiq")
_AFTER_HOSTS = struct.Struct(">iqi")


@dataclass(frozen=True)
class StoredRecord:
    """A stored message. ``properties`` may also be the bytes of the properties string."""

    body: bytes = b"body"
    topic: str = "orders"
    properties: Mapping[str, str] | bytes = field(default_factory=dict)
    queue_id: int = 1
    flag: int = 0
    queue_offset: int = 0
    physical_offset: int = 0
    sys_flag: int = 0
    born_ms: int = 1_700_000_000_123
    born_host: tuple[str, int] = ("10.1.2.3", 5555)
    store_ms: int = 1_700_000_000_456
    store_host: tuple[str, int] = ("127.0.0.1", 10911)
    reconsume_times: int = 0

    def encode(self) -> bytes:
        """Returns the record. Bits of ``sys_flag`` for IPv6 are set according to the hosts."""
        born, store = _pack_host(self.born_host), _pack_host(self.store_host)
        flags = self.sys_flag | (0x10 if len(born) > 8 else 0) | (0x20 if len(store) > 8 else 0)
        topic = self.topic.encode()
        is_long = len(topic) > 127
        properties = self.properties if isinstance(self.properties, bytes) else encode_properties(self.properties)
        rest = [
            born,
            struct.pack(">q", self.store_ms),
            store,
            _AFTER_HOSTS.pack(self.reconsume_times, 0, len(self.body)),
            self.body,
            struct.pack(">H" if is_long else ">B", len(topic)),
            topic,
            struct.pack(">H", len(properties)),
            properties,
        ]
        head = _BEFORE_HOSTS.pack(
            _BEFORE_HOSTS.size + sum(map(len, rest)),
            0xDAA320AB if is_long else 0xDAA320A7,
            zlib.crc32(self.body) & 0x7FFFFFFF,
            self.queue_id,
            self.flag,
            self.queue_offset,
            self.physical_offset,
            flags,
            self.born_ms,
        )
        return b"".join((head, *rest))


def encode_properties(properties: Mapping[str, str]) -> bytes:
    """Returns the properties string."""
    return "".join(f"{name}\x01{value}\x02" for name, value in properties.items()).encode()


def join_bodies(bodies: Iterable[Sequence[bytes]], between: bytes = b"header") -> tuple[bytes, Ints, Ints]:
    """Returns the bodies of responses, each with its records, in one buffer; and where each begins and ends."""
    data, starts, ends = bytearray(), [], []
    for records in bodies:
        data += between
        starts.append(len(data))
        data += b"".join(records)
        ends.append(len(data))
    return bytes(data + between), np.array(starts, np.int64), np.array(ends, np.int64)


def _pack_host(host: tuple[str, int]) -> bytes:
    return ipaddress.ip_address(host[0]).packed + struct.pack(">i", host[1])
