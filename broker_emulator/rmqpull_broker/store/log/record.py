"""The bytes of the commit log: encoding, decoding and checksums. ``commit_log`` writes the files.

Numbers are little-endian. Every part is padded to 8 bytes, so that Arrow buffers in a mapped file are aligned.

A segment is a header and a sequence of records::

    0        8        12       16
    +--------+--------+--------+---------------------------
    | magic  |version |reserved| record, record, …
    +--------+--------+--------+---------------------------

A record is one batch of facts, kept whole or not at all. The checksum covers everything after itself::

    0        4        8                16               24
    +--------+--------+----------------+----------------+---------------------
    | magic  | crc32  | payload length | synced until   | entry, entry, …
    +--------+--------+----------------+----------------+---------------------

``synced until`` is a log position: everything before it was synced when this record was written. It distinguishes a
write that a power cut interrupted from damage to acknowledged records. A record without entries says nothing else: it
is the mark that a broker writes after a start and at an orderly stop.

An entry is one fact. ``header`` is JSON. Only messages and the times of delayed messages have ``data``::

    0        4        8                16
    +--------+--------+----------------+---------------+-------------
    | kind   | header | data length    | header, pad   | data, pad
    |        | length |                |               |
    +--------+--------+----------------+---------------+-------------

The data of COLUMNS is one Arrow IPC record batch of ``columns.STORED_SCHEMA``. ``rows`` describes the data of ROWS, and
``facts.StillDelayed`` that of delayed messages in a snapshot.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, QueuePart, RowsStored, StillDelayed
from rmqpull_broker.store.log import format_1, small_facts
from rmqpull_broker.store.log.rows import LoggedRows, encode_rows

FORMAT_VERSION = 4
_READ_VERSIONS = (format_1.VERSION, 2, FORMAT_VERSION)
"""Version 2 is the current one without lengths of waiting messages, and without ``facts.ClockRead``. No segment has
version 3, because a flipped bit would turn it into another readable version."""
SEGMENT_MAGIC = b"RMQPLOG\x00"
RECORD_MAGIC = b"RMQR"

_SEGMENT_HEADER = struct.Struct("<8sII")
_RECORD_HEADER = struct.Struct("<4sIQQ")
_CHECKED_HEADER = struct.Struct("<QQ")
_CHECKED_FROM = 8
_ENTRY_HEADER = struct.Struct("<IIQ")

_unpack_entry, _ENTRY_BYTES = _ENTRY_HEADER.unpack_from, _ENTRY_HEADER.size

SEGMENT_HEADER_BYTES = _SEGMENT_HEADER.size
RECORD_HEADER_BYTES = _RECORD_HEADER.size

_ROWS, _COLUMNS, _DELAYED_2, _DELAYED = 3, 4, 19, 24
_to_json = json.JSONEncoder(separators=(",", ":")).encode
_decode_json = json.JSONDecoder().decode


class UnknownFormat(Exception):
    """A segment that another program, or a later version of this one, wrote."""


def encode_segment_header() -> bytes:
    """Returns the first bytes of every segment."""
    return _SEGMENT_HEADER.pack(SEGMENT_MAGIC, FORMAT_VERSION, 0)


def is_torn_header(data: memoryview) -> bool:
    """Whether a segment is only a header that is partly zero, and so was never synced."""
    header = encode_segment_header()
    return (
        len(data) == len(header)
        and all(byte in (expected, 0) for byte, expected in zip(data, header, strict=True))
        and bytes(data) != header
    )


def check_segment_header(data: memoryview) -> int:
    """Returns the format version of a segment. Raises UnknownFormat when this release cannot read it."""
    if len(data) < SEGMENT_HEADER_BYTES:
        raise UnknownFormat(f"its {len(data)} bytes are less than the header of a segment")
    magic, version, _ = _SEGMENT_HEADER.unpack_from(data)
    if magic != SEGMENT_MAGIC:
        raise UnknownFormat(f"it begins with {bytes(magic)!r} instead of {SEGMENT_MAGIC!r}")
    if version not in _READ_VERSIONS:
        raise UnknownFormat(f"its format version is {version}; this release reads versions 1, 2 and {FORMAT_VERSION}")
    return int(version)


def _pad(data: bytes | pa.Buffer) -> list[bytes | pa.Buffer]:
    return [data, bytes(-len(data) % 8)]


def encode_record(facts: Sequence[Fact], synced_until: int) -> bytes:
    """Returns one record. ``synced_until`` is the position up to which the log is synced now."""
    parts: list[bytes | pa.Buffer] = []
    for fact in facts:
        kind, header, data = _encode(fact)
        header_bytes = _to_json(header).encode()
        parts.append(_ENTRY_HEADER.pack(kind, len(header_bytes), len(data)))
        parts += _pad(header_bytes) + _pad(data)
    length = sum(map(len, parts))
    checksum = zlib.crc32(_CHECKED_HEADER.pack(length, synced_until))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return b"".join([_RECORD_HEADER.pack(RECORD_MAGIC, checksum, length, synced_until), *parts])


class Frame(NamedTuple):
    """A record with a correct checksum."""

    size: int
    synced_until: int
    payload: memoryview


def read_frame(data: memoryview, start: int) -> Frame | None:
    """Returns the record at ``start``; None when it is damaged or not complete."""
    if start + RECORD_HEADER_BYTES > len(data):
        return None
    magic, checksum, length, synced_until = _RECORD_HEADER.unpack_from(data, start)
    end = start + RECORD_HEADER_BYTES + length
    if magic != RECORD_MAGIC or end > len(data):
        return None
    if zlib.crc32(data[start + _CHECKED_FROM : end]) != checksum:
        return None
    return Frame(RECORD_HEADER_BYTES + length, synced_until, data[start + RECORD_HEADER_BYTES : end])


def read_frame_size(data: memoryview, start: int) -> int:
    """Returns the size in the header of the record at ``start``; 0 when the header is not complete."""
    if start + RECORD_HEADER_BYTES > len(data):
        return 0
    magic, _, length, _ = _RECORD_HEADER.unpack_from(data, start)
    return RECORD_HEADER_BYTES + int(length) if magic == RECORD_MAGIC else 0


def decode_payload(payload: memoryview, version: int = FORMAT_VERSION) -> Iterator[Fact]:
    """Yields the facts of a record, in order. No fact keeps ``payload`` in memory."""
    at = 0
    while at < len(payload):
        kind, header_length, data_length = _ENTRY_HEADER.unpack_from(payload, at)
        at += _ENTRY_HEADER.size
        header = bytes(payload[at : at + header_length])
        at += header_length + -header_length % 8
        data = payload[at : at + data_length]
        old = format_1.decode_entry(kind, header, data) if version == format_1.VERSION else None
        yield _decode(kind, header, data) if old is None else old
        at += data_length + -data_length % 8


def decode_lone_rows(payload: memoryview) -> tuple[MessageQueue, bytes] | None:
    """Returns queue and rows of a record that is one send of single messages, as most are; None for any other."""
    if not payload:
        return None
    kind, header_length, data_length = _unpack_entry(payload)
    if kind != _ROWS:
        return None
    at = _ENTRY_BYTES + header_length + -header_length % 8
    if at + data_length + -data_length % 8 != len(payload):
        return None
    queue = _decode_queue(bytes(payload[_ENTRY_BYTES : _ENTRY_BYTES + header_length]))
    return queue, bytes(payload[at : at + data_length])


def _encode(fact: Fact) -> tuple[int, Any, bytes | pa.Buffer]:
    """Returns (kind, header, data) of a fact."""
    if isinstance(fact, LoggedRows):
        return _ROWS, fact.queue, fact.data
    if isinstance(fact, RowsStored):
        return _ROWS, fact.queue, encode_rows(fact.rows)
    if isinstance(fact, ColumnsStored):
        return _COLUMNS, fact.parts, fact.batch.serialize()
    if isinstance(fact, StillDelayed):
        return _DELAYED if fact.has_lengths else _DELAYED_2, fact.queue, fact.numbers
    codec = small_facts.BY_FACT[type(fact)]
    return codec.kind, codec.to_json(fact), b""


def _decode(kind: int, header: bytes, data: memoryview) -> Fact:
    if kind == _ROWS:
        return LoggedRows(_decode_queue(header), bytes(data))
    if kind == _COLUMNS:
        parts = tuple(QueuePart(MessageQueue(*queue), first, count) for queue, first, count in _from_json(header))
        return ColumnsStored(parts, pa.ipc.read_record_batch(pa.py_buffer(bytes(data)), columns.STORED_SCHEMA))
    if kind in (_DELAYED, _DELAYED_2):
        return StillDelayed(_decode_queue(header), bytes(data), kind == _DELAYED)
    if kind not in small_facts.BY_KIND:
        raise UnknownFormat(f"a record has a fact of the unknown kind {kind}")
    return small_facts.BY_KIND[kind].from_json(_from_json(header))


def _from_json(header: bytes) -> Any:
    """Decodes a header. Not by ``json.loads``, which detects the encoding each time."""
    return _decode_json(header.decode())


@functools.lru_cache(maxsize=4096)
def _decode_queue(header: bytes) -> MessageQueue:
    """Cached, because most records are single messages to a few queues."""
    return MessageQueue(*_from_json(header))
