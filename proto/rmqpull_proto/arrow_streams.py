"""Reads Arrow IPC streams that a peer has sent: no part of a stream is used before it is checked.

Arrow checks the form of each message, and no more. Offsets may point anywhere, and a compressed buffer of a few bytes
may claim any size, which Arrow allocates. So the types are checked before any column is read, compressed and
big-endian streams are refused, and the buffers of each batch are validated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

import pyarrow as pa

from rmqpull_proto.columns import select

BATCHES_MAX = 65_536
METADATA_BYTES_MAX = 262_144
"""The metadata of one message: a schema, or where the buffers of a batch are. Ours have less than 5,000 bytes."""

# Field numbers in Arrow's Message.fbs and Schema.fbs.
_MESSAGE_HEADER = 2
_SCHEMA_ENDIANNESS = 0
_BATCH_COMPRESSION = 3


def read_stream(
    data: bytes | pa.Buffer | memoryview,
    accepted: pa.Schema,
    required: Sequence[str] = (),
    batches_max: int = BATCHES_MAX,
) -> list[pa.RecordBatch]:
    """Reads the batches of a stream without a copy: they keep ``data`` alive. Empty data has no batches.

    :param accepted: the columns that the stream may have, each at most once and in any order.
    :param required: the columns that it must have.
    :raises ValueError: when the data is not a whole stream of such columns, or has more than ``batches_max`` batches.
    """
    if not len(data):
        return []
    try:
        messages = _read_messages(data)
        schema = _read_schema(messages, accepted, required)
        batches: list[pa.RecordBatch] = []
        for message in messages:
            if len(batches) == batches_max:
                raise ValueError(f"The stream has more than {batches_max} batches; send fewer and larger ones.")
            batches.append(_read_batch(message, schema))
    except (OSError, struct.error, pa.ArrowException) as broken:
        raise ValueError(f"Not a complete Arrow IPC stream: {broken}") from broken
    return batches


def check_schema(schema: pa.Schema, accepted: pa.Schema, required: Sequence[str] = ()) -> None:
    """Raises ValueError unless all columns are accepted ones, with their types and without repetition, and no required
    column is missing.
    """
    names = schema.names
    if len(set(names)) < len(names):
        raise ValueError(f"Columns must have different names, got {', '.join(names)}.")
    if missing := [name for name in required if name not in names]:
        raise ValueError(f"Missing column: {', '.join(missing)}.")
    select(accepted, names)
    for field in schema:
        if field.type != (wanted := accepted.field(field.name).type):
            raise ValueError(f"Column {field.name} must be {wanted}, got {field.type}.")


def _read_messages(data: bytes | pa.Buffer | memoryview) -> Iterator[pa.ipc.Message]:
    """The messages of a stream. Arrow verifies that their metadata are flatbuffers and their bodies complete."""
    reader = pa.ipc.MessageReader.open_stream(data)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        if message.metadata.size > METADATA_BYTES_MAX:
            raise ValueError(f"A message has metadata of {message.metadata.size} bytes, above {METADATA_BYTES_MAX}.")
        yield message


def _read_schema(messages: Iterator[pa.ipc.Message], accepted: pa.Schema, required: Sequence[str]) -> pa.Schema:
    message = next(messages, None)
    if message is None or message.type != "schema":
        raise ValueError("Not an Arrow IPC stream: it does not begin with a schema.")
    place = _find_field(message, _SCHEMA_ENDIANNESS)
    if place and struct.unpack_from("<h", message.metadata, place)[0]:
        raise ValueError("The stream is big-endian. Write it in little-endian order.")
    schema = pa.ipc.read_schema(message)
    check_schema(schema, accepted, required)
    return schema


def _read_batch(message: pa.ipc.Message, schema: pa.Schema) -> pa.RecordBatch:
    if message.type != "record batch":
        raise ValueError(f"The stream has a message of type {message.type}, where only record batches may be.")
    if _find_field(message, _BATCH_COMPRESSION):
        raise ValueError("The stream has compressed buffers. Write it without compression.")
    batch = pa.ipc.read_record_batch(message, schema)
    batch.validate(full=True)
    return batch


def _find_field(message: pa.ipc.Message, number: int) -> int:
    """Returns the position of a field of a message's header in its metadata, or 0 without the field.

    A flatbuffer begins with the position of its root table. Each table begins with the distance back to its vtable,
    which has its own length, the length of the table, and then the position of each field.
    """
    metadata = message.metadata
    root: int = struct.unpack_from("<I", metadata)[0]
    header = _find_in_table(metadata, root, _MESSAGE_HEADER)
    header += struct.unpack_from("<I", metadata, header)[0]
    return _find_in_table(metadata, header, number)


def _find_in_table(metadata: pa.Buffer, table: int, number: int) -> int:
    vtable: int = table - struct.unpack_from("<i", metadata, table)[0]
    length: int = struct.unpack_from("<H", metadata, vtable)[0]
    at = 4 + 2 * number
    place: int = struct.unpack_from("<H", metadata, vtable + at)[0] if at < length else 0
    return table + place if place else 0
