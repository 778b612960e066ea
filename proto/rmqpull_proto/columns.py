"""The Arrow schemas of ``rmqpull.v1``, and how Arrow IPC streams are written.

The columns have the names of the Spark row, so a pulled column becomes a Spark column without a change. Topic, broker
name and queue id are not columns: the response lists its queues in the order of their rows. Every column may be null.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto.remoting import properties

TIMESTAMP = pa.timestamp("us", tz="UTC")
# List elements are called "element", as in Spark.
KEYS = pa.list_(pa.field("element", pa.string()))
PROPERTIES = pa.map_(pa.string(), pa.string())

# The property in `systemProperties` with the priority of a message. Only a publish has a column `priority`.
PRIORITY_PROPERTY = properties.PRIORITY

# The compression of a body. 1 and 2 are of apache.rocketmq.v2.Encoding; GZIP is a gzip or a zlib stream, which its
# first bytes show. Numbers of 256 and more are RocketMQ's system flag: bit 0 is set, and bits 8 to 10 are the type.
BODY_ENCODINGS = {"IDENTITY": 1, "GZIP": 2, "LZ4": 0x101, "ZSTD": 0x201, "ZLIB": 0x301}

# The schema of `PullColumnsResponse.arrow_ipc`, or the requested part of it.
PULL_SCHEMA = pa.schema(
    [
        ("queueOffset", pa.int64()),
        ("msgId", pa.string()),
        ("tags", pa.string()),
        ("keys", KEYS),
        ("body", pa.binary()),
        ("properties", PROPERTIES),  # user properties only
        ("bornTimestamp", TIMESTAMP),
        ("bornHost", pa.string()),
        ("storeTimestamp", TIMESTAMP),
        ("storeHost", pa.string()),
        ("reconsumeTimes", pa.int32()),
        ("messageGroup", pa.string()),
        ("deliveryTimestamp", TIMESTAMP),
        ("bodyEncoding", pa.int32()),  # one of BODY_ENCODINGS
    ]
)

# The columns that a pull may request: the pull schema, and a column that is only sent on request, because a second map
# column costs a tenth to a quarter of the speed.
PULLABLE_SCHEMA = pa.schema(
    [
        *PULL_SCHEMA,
        ("systemProperties", PROPERTIES),  # RocketMQ's own properties that have no column
    ]
)

# The schema of `PublishColumnsRequest.arrow_ipc`. Only the column `body` is required.
PUBLISH_SCHEMA = pa.schema(
    [
        ("body", pa.binary()),
        ("tags", pa.string()),
        ("keys", KEYS),
        ("properties", PROPERTIES),
        ("messageGroup", pa.string()),
        ("deliveryTimestamp", TIMESTAMP),
        ("bornTimestamp", TIMESTAMP),
        ("bornHost", pa.string()),
        ("msgId", pa.string()),
        ("bodyEncoding", pa.int32()),
        ("brokerName", pa.string()),  # with queueId: the queue of the row
        ("queueId", pa.int32()),
        ("priority", pa.int32()),  # from 0; servers that take it say `takes_priorities`
    ]
)


def select(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Selects fields of a schema, in the order of the schema; without names, all fields.

    Raises ValueError for unknown names.
    """
    wanted = set(names)
    if unknown := sorted(wanted.difference(schema.names)):
        raise ValueError(f"No such column: {', '.join(unknown)}. There are {', '.join(schema.names)}.")
    return pa.schema([field for field in schema if field.name in wanted]) if wanted else schema


def select_pulled(names: Sequence[str]) -> pa.Schema:
    """Makes the schema of a pull of these columns, by default PULL_SCHEMA. Raises ValueError as select does."""
    return select(PULLABLE_SCHEMA, names) if names else PULL_SCHEMA


def add_place(place: tuple[str, str, int], batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns messages with the columns topic, brokerName and queueId, which ``place`` has, before their own."""
    kinds = (("topic", pa.string()), ("brokerName", pa.string()), ("queueId", pa.int32()))
    arrays = [pa.repeat(pa.scalar(value, kind), batch.num_rows) for value, (_, kind) in zip(place, kinds, strict=True)]
    return pa.RecordBatch.from_arrays([*arrays, *batch.columns], schema=pa.schema([*kinds, *batch.schema]))


def list_entries(maps: pa.MapArray) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Returns the names and the values of all entries of maps, and the index of the map that each entry is in."""
    lists = pa.ListArray.from_arrays(maps.offsets, maps.keys)
    first, end = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return maps.keys.slice(first, end - first), maps.items.slice(first, end - first), pc.list_parent_indices(lists)


def find_names(maps: pa.MapArray) -> pa.Array:
    """Returns the names of the entries of maps, with or without repetitions; none if no map has an entry.

    Mostly all maps have the same names in the same order. Then these are the names of the first map, and found as fast
    as memory is compared.
    """
    first, end = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    names = maps.keys.slice(first, end - first)
    count = maps.offsets[1].as_py() - first if len(maps) else 0
    if not count or len(names) % count or names.null_count:
        return names
    lengths = pc.binary_length(names)
    if not lengths.slice(count).equals(lengths.slice(0, len(names) - count)):
        return names
    size, period = pc.sum(lengths).as_py(), pc.sum(lengths.slice(0, count)).as_py()
    if size > period:
        _, offsets, data = names.buffers()
        begin: int = struct.unpack_from("=i", offsets, 4 * names.offset)[0]
        if not data.slice(begin + period, size - period).equals(data.slice(begin, size - period)):
            return names
    return names.slice(0, count)


def keep_entries(maps: pa.MapArray, is_kept: pa.Array) -> pa.MapArray:
    """Returns maps with some of their entries. ``is_kept`` has a value for each one that :func:`list_entries` returns.

    A null stays a null.
    """
    names, values, _ = list_entries(maps)
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(is_kept.cast(pa.int32()))])
    offsets = counts.take(pc.subtract(maps.offsets, maps.offsets[0]))
    mask = maps.is_null() if maps.null_count else None
    return pa.MapArray.from_arrays(offsets, names.filter(is_kept), values.filter(is_kept), maps.type, mask=mask)


def write_stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    """Writes batches of this schema as an uncompressed Arrow IPC stream."""
    return b"".join(write_stream_parts(schema, batches))


def write_stream_parts(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> list[Any]:
    """Writes a stream as parts that share the memory of the batches, so that joining them is the only copy."""
    parts = _Parts()
    with pa.ipc.new_stream(pa.PythonFile(parts, mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return parts.written


class _Parts:
    """A file that collects what is written."""

    closed = False

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.write = self.written.append

    def flush(self) -> None:
        """Does nothing: there is no buffer."""

    def close(self) -> None:
        """Does nothing."""
