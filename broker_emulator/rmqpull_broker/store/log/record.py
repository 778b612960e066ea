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

The data of COLUMNS is one Arrow IPC record batch of ``columns.STORED_SCHEMA``. ``logged_columns`` describes the data of
PARTS and STAGED, ``rows`` that of ROWS, and ``facts.StillDelayed`` that of delayed messages in a snapshot.
"""

from __future__ import annotations

import dataclasses
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
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.ports import NOT_LOGGED, LogRange
from rmqpull_broker.core.state.stage_facts import ColumnsStaged, StagedPart, TransactionId
from rmqpull_broker.store.log import format_1, logged_columns, small_facts
from rmqpull_broker.store.log.logged_columns import (
    EncodedMessages,
    decode_messages,
    encode_messages,
    place_messages,
)
from rmqpull_broker.store.log.rows import LoggedRows, encode_rows

FORMAT_VERSION = 7
_READ_VERSIONS = (format_1.VERSION, 2, 4, FORMAT_VERSION)
"""Version 4 is the current one without PARTS and STAGED, and without splices in commits. Version 2 is that without
lengths of waiting messages, and without ``facts.ClockRead``. The other numbers are never used, because a flipped bit
would turn one readable version into another."""
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

_ROWS, _COLUMNS, _DELAYED_2, _DELAYED, _PARTS, _STAGED = 3, 4, 19, 24, 26, 27
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
        raise UnknownFormat(
            f"its format version is {version}; this release reads versions 1, 2, 4 and {FORMAT_VERSION}"
        )
    return int(version)


Bytes = list[bytes | pa.Buffer]
"""Bytes in parts, which need not be copied."""


def encode_record(facts: Sequence[Fact], synced_until: int) -> bytes:
    """Returns one record. ``synced_until`` is the position up to which the log is synced now.

    Columns are whole in it, as in a snapshot, which nothing refers to.
    """
    return b"".join(_join_entries([_encode(fact) for fact in facts], synced_until))


class PlacedRecord(NamedTuple):
    """A record in parts, and its facts, which say where the log has their columns."""

    parts: Bytes
    facts: list[Fact]
    size: int


def encode_placed_record(facts: Sequence[Fact], synced_until: int, segment: int, position: int) -> PlacedRecord:
    """Returns one record of the log, which begins at ``position``. ``segment`` is where its segment begins.

    Queues refer to columns with a large part, and to staged ones, where they are.
    """
    entries, kept, at = list[_Entry](), list[Fact](), position + RECORD_HEADER_BYTES
    for fact in facts:
        encoded = _encode_messages(fact)
        if encoded is None:
            entry = _encode(fact)
        else:
            assert isinstance(fact, (ColumnsStored, ColumnsStaged)), "only these have columns"
            entry = _Entry(
                _STAGED if isinstance(fact, ColumnsStaged) else _PARTS, _to_form(fact, encoded), encoded.data
            )
            data_at = at + entry.data_offset
            fact = dataclasses.replace(fact, messages=place_messages(encoded.forms, segment, data_at))
        entries.append(entry)
        kept.append(fact)
        at += entry.size
    return PlacedRecord(_join_entries(entries, synced_until), kept, at - position)


class _Entry:
    """A fact in bytes."""

    def __init__(self, kind: int, header: Any, data: Bytes) -> None:
        self.header = _to_json(header).encode()
        length = sum(map(len, data))
        begin = _ENTRY_HEADER.pack(kind, len(self.header), length)
        self.data_offset = len(begin) + len(self.header) + -len(self.header) % 8
        self.size = self.data_offset + length + -length % 8
        self.parts: Bytes = [begin, self.header, bytes(-len(self.header) % 8), *data, bytes(-length % 8)]


def _join_entries(entries: Sequence[_Entry], synced_until: int) -> Bytes:
    length = sum(entry.size for entry in entries)
    parts = [part for entry in entries for part in entry.parts]
    checksum = zlib.crc32(_CHECKED_HEADER.pack(length, synced_until))
    for part in parts:
        checksum = zlib.crc32(part, checksum)
    return [_RECORD_HEADER.pack(RECORD_MAGIC, checksum, length, synced_until), *parts]


def _encode_messages(fact: Fact) -> EncodedMessages | None:
    """Returns the columns of a fact as messages to which queues can refer; None if they need not.

    The rows of a stage's own queue outlive the log before a cut, and are stored again anyway.
    """
    if isinstance(fact, ColumnsStaged) or (isinstance(fact, ColumnsStored) and any(map(_is_large, fact.parts))):
        return encode_messages(fact.batch, [part.row_count for part in fact.parts])
    return None


def _is_large(part: QueuePart) -> bool:
    return part.row_count >= logged_columns.RUN_ROWS_MIN and not part.queue.topic.startswith(STAGE_PREFIX)


def _to_form(fact: ColumnsStored | ColumnsStaged, encoded: EncodedMessages) -> list[Any]:
    if isinstance(fact, ColumnsStaged):
        of_call = [fact.transaction, fact.stage_id, fact.sequence, fact.timeout_ms, fact.written_ms]
        return [*of_call, fact.parts, encoded.forms]
    times, hosts = fact.batch.column("storeTimestamp"), fact.batch.column("storeHost")
    parts, begin = [], 0
    for part in fact.parts:
        parts.append([*part, times[begin].value // 1000, hosts[begin].as_py()])
        begin += part.row_count
    return [parts, encoded.forms]


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


def decode_payload(
    payload: memoryview, version: int = FORMAT_VERSION, written: LogRange = NOT_LOGGED
) -> Iterator[Fact]:
    """Yields the facts of a record at ``written``, in order. No fact keeps ``payload`` in memory."""
    at = 0
    while at < len(payload):
        kind, header_length, data_length = _ENTRY_HEADER.unpack_from(payload, at)
        at += _ENTRY_HEADER.size
        header = bytes(payload[at : at + header_length])
        at += header_length + -header_length % 8
        data = payload[at : at + data_length]
        old = format_1.decode_entry(kind, header, data) if version == format_1.VERSION else None
        if old is not None:
            yield old
        elif kind in (_PARTS, _STAGED):
            data_at = written.from_position + RECORD_HEADER_BYTES + at
            yield _decode_placed(kind, _from_json(header), bytes(data), written.segment, data_at)
        else:
            yield _decode(kind, header, data)
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


def _encode(fact: Fact) -> _Entry:
    if isinstance(fact, LoggedRows):
        return _Entry(_ROWS, fact.queue, [fact.data])
    if isinstance(fact, RowsStored):
        return _Entry(_ROWS, fact.queue, [encode_rows(fact.rows)])
    if isinstance(fact, ColumnsStored):
        return _Entry(_COLUMNS, fact.parts, [fact.batch.serialize()])
    if isinstance(fact, StillDelayed):
        return _Entry(_DELAYED if fact.has_lengths else _DELAYED_2, fact.queue, [fact.numbers])
    codec = small_facts.BY_FACT[type(fact)]
    return _Entry(codec.kind, codec.to_json(fact), [])


def _decode_placed(kind: int, form: Any, data: bytes, segment: int, position: int) -> ColumnsStored | ColumnsStaged:
    *others, forms = form
    rows, messages = decode_messages(data, forms), place_messages(forms, segment, position)
    if kind == _STAGED:
        transaction, stage_id, sequence, timeout_ms, written_ms, part_forms = others
        staged = tuple(StagedPart(MessageQueue(*queue), *sizes) for queue, *sizes in part_forms)
        of_call = TransactionId(*transaction), stage_id, sequence
        return ColumnsStaged(*of_call, staged, timeout_ms, written_ms, rows, messages)
    parts, placed, begin = list[QueuePart](), list[pa.RecordBatch](), 0
    for queue, first_offset, row_count, store_ms, store_host in others[0]:
        parts.append(QueuePart(MessageQueue(*queue), first_offset, row_count))
        placed.append(columns.place_rows(rows.slice(begin, row_count), first_offset, store_ms, store_host))
        begin += row_count
    return ColumnsStored(tuple(parts), placed[0] if len(placed) == 1 else columns.concat_batches(placed), messages)


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
