"""Messages on the wire of Apache's brokers, written without the product, which must not judge itself.

The layouts are those of docs/rules/4-remoting.md.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage

PRODUCER_GROUP = "tests"
SHARDING_KEY = "__SHARDINGKEY"
HALF = 4
"""The bit of the system flag that a half message has."""
_COMPRESSED, _COMPRESSION_TYPE = 1, 0x700
_KEYS, _TAGS, _MSG_ID, _TRACE, _DELIVER_MS = "KEYS", "TAGS", "UNIQ_KEY", "TRACE_CONTEXT", "TIMER_DELIVER_MS"
_OWN = frozenset({_KEYS, _TAGS, _MSG_ID, _TRACE, _DELIVER_MS, SHARDING_KEY})
_OF_BROKER = frozenset({"MSG_REGION", "TRACE_ON", "CLUSTER", "WAIT", "MIN_OFFSET", "MAX_OFFSET"})
_IPV6_BORN, _IPV6_STORE = 16, 32


class Record(NamedTuple):
    """A stored message, with its position in the commit log of its broker."""

    row: StoredMessage
    log_position: int


def make_send_fields(topic: str, queue_id: int, message: Message, now_ms: int, system_flag: int = 0) -> dict[str, Any]:
    """Returns the header fields of SEND_MESSAGE_V2."""
    encoding = int(message.body_encoding)
    if message.body_encoding is not BodyEncoding.IDENTITY:
        system_flag |= _COMPRESSED | (encoding & _COMPRESSION_TYPE)
    properties = dict(message.properties) | dict(message.system_properties)
    found = {
        _MSG_ID: message.msg_id,
        _TAGS: message.tags,
        _KEYS: " ".join(message.keys),
        _TRACE: message.trace_context,
        SHARDING_KEY: message.message_group,
        _DELIVER_MS: message.delivery_timestamp_ms and str(message.delivery_timestamp_ms),
    }
    properties |= {name: text for name, text in found.items() if text}
    return {
        "a": PRODUCER_GROUP,
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": queue_id,
        "f": system_flag,
        "g": message.born_timestamp_ms or now_ms,
        "h": 0,
        "i": "".join(f"{name}\1{text}\2" for name, text in properties.items()),
        "j": 0,
        "k": "false",
        "m": "false",
    }


def read_records(data: bytes) -> Iterator[Record]:
    """Returns the messages in the body of a response to a pull."""
    start = 0
    while start < len(data):
        (size,) = struct.unpack_from(">i", data, start)
        yield _read_record(data[start : start + size])
        start += size


def _read_record(data: bytes) -> Record:
    magic, offset, log_position, flag, born_ms = struct.unpack_from(">4xI12xqqiq", data)
    born_host, at = _read_host(data, 48, flag & _IPV6_BORN)
    (stored_ms,) = struct.unpack_from(">q", data, at)
    store_host, at = _read_host(data, at + 8, flag & _IPV6_STORE)
    reconsumed, body_size = struct.unpack_from(">i8xi", data, at)
    at += 16
    body, at = data[at : at + body_size], at + body_size
    length_format = ">B" if magic == 0xDAA320A7 else ">H"
    (topic_size,) = struct.unpack_from(length_format, data, at)
    at += struct.calcsize(length_format) + topic_size
    (properties_size,) = struct.unpack_from(">h", data, at)
    pairs = data[at + 2 : at + 2 + properties_size].decode().split("\2")
    properties = dict(pair.split("\1", 1) for pair in pairs if "\1" in pair)
    system = {name: text for name, text in properties.items() if name in _OF_BROKER}
    message = Message(
        body=body,
        msg_id=properties.get(_MSG_ID, ""),
        tags=properties.get(_TAGS),
        keys=tuple(properties.get(_KEYS, "").split()),
        properties={name: text for name, text in properties.items() if name not in _OWN | _OF_BROKER},
        message_group=properties.get(SHARDING_KEY),
        born_timestamp_ms=born_ms,
        born_host=born_host,
        body_encoding=_read_encoding(flag),
        trace_context=properties.get(_TRACE),
        system_properties=system,
    )
    return Record(StoredMessage(message, offset, stored_ms, store_host, reconsumed), log_position)


def _read_encoding(flag: int) -> BodyEncoding:
    if not flag & _COMPRESSED:
        return BodyEncoding.IDENTITY
    return BodyEncoding(flag & _COMPRESSION_TYPE | _COMPRESSED) if flag & _COMPRESSION_TYPE else BodyEncoding.GZIP


def _read_host(data: bytes, at: int, is_ipv6: int) -> tuple[str, int]:
    size = 16 if is_ipv6 else 4
    host = socket.inet_ntop(socket.AF_INET6 if is_ipv6 else socket.AF_INET, data[at : at + size])
    (port,) = struct.unpack_from(">i", data, at + size)
    return f"{host}:{port}", at + size + 4
