"""Reading Arrow streams of peers: what is read is sound, all else is refused, and little memory is used meanwhile."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqpull_proto.arrow_streams import METADATA_BYTES_MAX, check_schema, read_stream
from rmqpull_proto.columns import PUBLISH_SCHEMA, PULL_SCHEMA, PULLABLE_SCHEMA, write_stream
from tests.harness.hostile_input import damage, limit_cpu

BATCH = pa.record_batch(
    {"body": pa.array([b"one", None]), "keys": pa.array([["k1", "k2"], None], PULL_SCHEMA.field("keys").type)}
)
FULL = pa.RecordBatch.from_pydict(
    {
        "body": [b"one", None, b"three" * 20],
        "tags": ["a", None, "\u20ac"],
        "keys": [["k1", None], None, []],
        "properties": [[("a", "b"), ("c", None)], None, []],
        "deliveryTimestamp": [None, 0, 1_700_000_000_000_000],
        "bodyEncoding": [None, 1, 2],
    },
    schema=pa.schema(
        [
            PUBLISH_SCHEMA.field(name)
            for name in PUBLISH_SCHEMA.names
            if name in {"body", "tags", "keys", "properties", "deliveryTimestamp", "bodyEncoding"}
        ]
    ),
)


def read(data: Any, **bounds: Any) -> list[pa.RecordBatch]:
    return read_stream(data, PULLABLE_SCHEMA, **bounds)


def write_as(batch: pa.RecordBatch, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_batch(batch)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def test_a_written_stream_can_be_read() -> None:
    assert read(write_stream(BATCH.schema, [BATCH, BATCH.slice(1)])) == [BATCH, BATCH.slice(1)]


def test_a_stream_without_batches_and_empty_data_have_no_batches() -> None:
    assert read(write_stream(PULL_SCHEMA, [])) == read(b"") == []


@pytest.mark.parametrize("wrap", [pa.py_buffer, memoryview])
def test_a_buffer_is_read_in_place(wrap: Callable[[bytes], Any]) -> None:
    data = write_stream(BATCH.schema, [BATCH])
    buffer = pa.py_buffer(data)
    body = read(wrap(data))[0]["body"].buffers()[2]
    assert buffer.address <= body.address < buffer.address + buffer.size


def read_if_sound(data: bytes) -> list[pa.RecordBatch] | None:
    try:
        return read(data)
    except ValueError:
        return None


def test_a_truncated_stream_is_refused_or_lacks_whole_batches() -> None:
    data = write_stream(BATCH.schema, [BATCH])
    cut = [read_if_sound(data[:length]) for length in range(1, len(data))]
    assert None in cut
    assert all(left in (None, [], [BATCH]) for left in cut)


def test_a_stream_that_begins_with_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="does not begin with a schema"):
        read(BATCH.serialize())


def make_dictionary_stream() -> bytes:
    """A schema, and then the dictionary of another stream."""
    encoded = pa.record_batch({"tags": pa.array(["a", "b"]).dictionary_encode()})
    messages = pa.ipc.MessageReader.open_stream(write_as(encoded))
    messages.read_next_message()
    return write_as(BATCH)[:-8].split(BATCH.serialize().to_pybytes())[0] + bytes(
        messages.read_next_message().serialize()
    )


def make_big_endian_stream() -> bytes:
    """A schema with its byte order set: Arrow cannot write it on this machine."""
    data = bytearray(write_stream(PULL_SCHEMA, []))
    schema = pa.ipc.MessageReader.open_stream(bytes(data)).read_next_message()
    root = struct.unpack_from("<I", schema.metadata)[0]
    vtable = root - struct.unpack_from("<i", schema.metadata, root)[0]
    header = root + struct.unpack_from("<H", schema.metadata, vtable + 4 + 2 * 2)[0]
    header += struct.unpack_from("<I", schema.metadata, header)[0]
    vtable = header - struct.unpack_from("<i", schema.metadata, header)[0]
    # Its byte order gets the place of its fields, whose low bytes are not 0.
    place = struct.unpack_from("<H", schema.metadata, vtable + 4 + 2 * 1)[0]
    struct.pack_into("<H", data, data.index(bytes(schema.metadata)) + vtable + 4, place)
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (write_as(FULL, compression="zstd"), "compressed buffers. Write it without compression"),
        (write_as(FULL, compression="lz4"), "compressed buffers"),
        (make_dictionary_stream(), "a message of type dictionary"),
        (make_big_endian_stream(), "is big-endian"),
        (
            write_as(BATCH.replace_schema_metadata({"note": "x" * METADATA_BYTES_MAX})),
            f"bytes, above {METADATA_BYTES_MAX}",
        ),
        (write_as(pa.record_batch({"body": pa.array([b"x"]).dictionary_encode()})), "Column body must be binary"),
        (b"\xff" * 40, "Not a complete Arrow IPC stream"),
    ],
    ids=["zstd", "lz4", "dictionary", "big-endian", "metadata", "another type", "no stream"],
)
def test_a_stream_of_another_kind_is_refused(data: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        read(data)


def test_batches_are_counted() -> None:
    data = write_stream(BATCH.schema, [BATCH] * 3)
    assert len(read(data, batches_max=3)) == 3
    with pytest.raises(ValueError, match="more than 2 batches"):
        read(data, batches_max=2)


# ---- the schema


def test_a_part_of_the_schema_in_any_order_passes() -> None:
    check_schema(BATCH.schema, PUBLISH_SCHEMA, required=["body"])


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ([("tags", pa.string())], "Missing column: body."),
        ([("body", pa.string())], "Column body must be binary, got string."),
        ([("body", pa.binary()), ("topic", pa.string())], "No such column: topic."),
        ([("body", pa.binary()), ("body", pa.binary())], "Columns must have different names, got body, body."),
    ],
)
def test_other_columns_are_refused(fields: Sequence[Any], complaint: str) -> None:
    with pytest.raises(ValueError, match=re.escape(complaint)):
        check_schema(pa.schema(fields), PUBLISH_SCHEMA, required=["body"])


def test_a_schema_without_columns_lacks_only_the_required_ones() -> None:
    check_schema(pa.schema([]), PUBLISH_SCHEMA)
    with pytest.raises(ValueError, match="Missing column: body"):
        check_schema(pa.schema([]), PUBLISH_SCHEMA, required=["body"])


# ---- buffers

# The second value would start far beyond the data, which the first and the last offset do not show.
WILD_OFFSETS = pa.py_buffer(struct.pack("<3i", 0, 1 << 30, 1))
TWO_KEYS = pa.array(["a", "b"])
ONE_TEXT = pa.array(["ab"]).buffers()[1]


@pytest.mark.parametrize(
    "column",
    [
        {"body": pa.Array.from_buffers(pa.binary(), 2, [None, WILD_OFFSETS, pa.py_buffer(b"x")])},
        {"keys": pa.Array.from_buffers(PULL_SCHEMA.field("keys").type, 2, [None, WILD_OFFSETS], children=[TWO_KEYS])},
        {"tags": pa.Array.from_buffers(pa.string(), 1, [None, ONE_TEXT, pa.py_buffer(b"\xff\xfe")])},
    ],
    ids=["binary", "list", "UTF-8"],
)
def test_offsets_and_texts_are_validated(column: dict[str, Any]) -> None:
    batch = pa.record_batch(column)
    with pytest.raises(ValueError, match=r"out of bounds|[Ii]nvalid UTF8"):
        read(write_stream(batch.schema, [batch]))


SOUND = write_stream(FULL.schema, [FULL, FULL.slice(1)])
COMPRESSED = write_as(FULL, compression="zstd")
SPARE_BYTES = 1 << 20


@pytest.mark.edge
@given(st.sampled_from((SOUND, SOUND, COMPRESSED)).flatmap(damage))
@example(SOUND)
@example(COMPRESSED)
@limit_cpu
def test_no_damage_is_read(data: bytes) -> None:
    """Each batch that comes out has sound buffers, and every value can be read. Nothing of a wild size is allocated."""
    before = pa.default_memory_pool().max_memory()
    for batch in read_if_sound(data) or ():
        batch.validate(full=True)
        assert batch.num_rows <= len(data)
        batch.to_pylist()
    assert pa.default_memory_pool().max_memory() <= before + SPARE_BYTES
