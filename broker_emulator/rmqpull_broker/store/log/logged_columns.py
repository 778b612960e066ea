"""Messages in columns as the log keeps them: one Arrow message for the rows of each large part of a batch.

Queues refer to these messages, so no row is written a second time. A message lacks the columns that a queue gives its
rows (``columns.UNPLACED_SCHEMA``), and those that are null in all rows: they are made when the rows are read.
Neighbouring small parts share a message, because each message has about a kilobyte of its own.

The data of an entry is its messages, each padded to 8 bytes. The header has for each message the number of its rows,
its length, its CRC-32, so that it can be checked without the rest of the record, and which columns it has.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage

PART_ROWS_MIN = 1024
"""The rows of a large part, which has a message of its own."""
RUN_ROWS_MIN = 4096
"""The rows of a part to which a queue refers although no stage had it. Smaller ones are merged and saved in queue
files, because readers are faster with larger chunks."""

MessageForm = tuple[int, int, int, int]
"""A message in the header: its rows, length, CRC-32, and the bits of its columns."""


_NUMBERS = {name: number for number, name in enumerate(columns.UNPLACED_SCHEMA.names)}


class DamagedMessage(Exception):
    """The log does not have the message that an index names."""


class EncodedMessages(NamedTuple):
    """The messages of a batch: their bytes, in parts that need not be copied, and their forms."""

    data: list[bytes | pa.Buffer]
    forms: list[MessageForm]

    @property
    def length(self) -> int:
        """The length of the data, with padding."""
        return sum(map(len, self.data))


def group_parts(row_counts: Sequence[int]) -> Iterator[int]:
    """Yields the rows of each message for parts of these sizes: one large part, or neighbouring small ones."""
    waiting = 0
    for count in row_counts:
        if count >= PART_ROWS_MIN:
            if waiting:
                yield waiting
                waiting = 0
            yield count
            continue
        waiting += count
        if waiting >= PART_ROWS_MIN:
            yield waiting
            waiting = 0
    if waiting:
        yield waiting


def encode_messages(batch: pa.RecordBatch, row_counts: Sequence[int]) -> EncodedMessages:
    """Encodes a batch whose parts have these sizes."""
    encoded, begin = EncodedMessages([], []), 0
    for count in group_parts(row_counts):
        rows = batch.slice(begin, count)
        names = [name for name in columns.UNPLACED_SCHEMA.names if rows.column(name).null_count < count]
        message = rows.select(names).serialize()
        encoded.forms.append((count, len(message), zlib.crc32(message), sum(1 << _NUMBERS[name] for name in names)))
        encoded.data.extend([message, bytes(-len(message) % 8)])
        begin += count
    return encoded


def place_messages(forms: Iterable[Sequence[int]], segment: int, position: int) -> tuple[LoggedMessage, ...]:
    """Returns where messages are whose data begins at a log position."""
    placed = []
    for row_count, length, checksum, column_bits in forms:
        placed.append(LoggedMessage(segment, position, length, checksum, row_count, column_bits))
        position += length + -length % 8
    return tuple(placed)


def locate_parts(row_counts: Iterable[int], messages: Iterable[LoggedMessage]) -> Iterator[tuple[LoggedMessage, int]]:
    """Yields for each part of a batch its message, and its first row there. Each message has whole parts."""
    following, begin = iter(messages), 0
    message = next(following)
    for row_count in row_counts:
        if begin == message.row_count:
            message, begin = next(following), 0
        yield message, begin
        begin += row_count


def decode_messages(data: bytes, forms: Iterable[Sequence[int]]) -> pa.RecordBatch:
    """Returns the rows of all messages in the data of an entry, as views of it where there is only one."""
    view, at, batches = memoryview(data), 0, []
    for _, length, _, column_bits in forms:
        batches.append(add_null_columns(_decode(view[at : at + length], column_bits)))
        at += length + -length % 8
    return batches[0] if len(batches) == 1 else columns.concat_batches(batches)


def read_message(data: bytes, message: LoggedMessage) -> pa.RecordBatch:
    """Returns the rows of one message, as a view of ``data``, without columns that are null in all rows.

    Raises DamagedMessage for other bytes.
    """
    if len(data) < message.length:
        raise DamagedMessage("the log ends within the message")
    if zlib.crc32(data) != message.checksum:
        raise DamagedMessage("the message fails its checksum")
    return _decode(data, message.column_bits)


def _decode(data: bytes | memoryview, column_bits: int) -> pa.RecordBatch:
    fields = enumerate(columns.UNPLACED_SCHEMA)
    present = pa.schema([field for number, field in fields if column_bits >> number & 1])
    return pa.ipc.read_record_batch(pa.py_buffer(data), present)


def add_null_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    fields, names = columns.UNPLACED_SCHEMA, rows.schema.names
    arrays = [
        rows.column(field.name) if field.name in names else pa.nulls(rows.num_rows, field.type) for field in fields
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=fields)
