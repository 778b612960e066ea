"""The Arrow schemas of ``rmqpull.v1``, and Arrow IPC streams to and from bytes.

Names are those of the Spark row, so that a pulled column becomes a Spark column as it is. Topic, broker name and queue
id do not travel per row: they are constant per queue of an answer, which lists its queues in the order of their rows.
Every column may be null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
# List elements are called "element" as Spark calls them.
KEYS = pa.list_(pa.field("element", pa.string()))
PROPERTIES = pa.map_(pa.string(), pa.string())

# How a body is packed. 1 and 2 are apache.rocketmq.v2.Encoding's, where GZIP is a gzip or a zlib stream, as its first
# bytes tell. From 256 on the number is RocketMQ's system flag: bit 0 for packed, and the type in bits 8 to 10.
BODY_ENCODINGS = {"IDENTITY": 1, "GZIP": 2, "LZ4": 0x101, "ZSTD": 0x201, "ZLIB": 0x301}

# What `PullColumnsResponse.arrow_ipc` carries, or the wanted part of it.
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

# What a pull may name: the pull schema, and what only comes when it is named, since a second map costs a tenth to a
# quarter of the speed.
PULLABLE_SCHEMA = pa.schema(
    [
        *PULL_SCHEMA,
        ("systemProperties", PROPERTIES),  # RocketMQ's own properties that have no column
    ]
)

# What `PublishColumnsRequest.arrow_ipc` carries; a publisher may leave out any column but `body`.
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
    ]
)


def select(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """The named fields in the schema's own order; all of them when nothing is named.

    Raises ValueError for names that the schema does not have.
    """
    wanted = set(names)
    if unknown := sorted(wanted.difference(schema.names)):
        raise ValueError(f"No such column: {', '.join(unknown)}. There are {', '.join(schema.names)}.")
    return pa.schema([field for field in schema if field.name in wanted]) if wanted else schema


def pulled_schema(names: Sequence[str]) -> pa.Schema:
    """What a pull that names these columns gives; the pull schema when it names none. Raises ValueError as select."""
    return select(PULLABLE_SCHEMA, names) if names else PULL_SCHEMA


def check(batch: pa.RecordBatch, schema: pa.Schema, required: Sequence[str] = ()) -> None:
    """Raises ValueError unless each column is one of the schema, in its type, once, and the required ones are there.

    Buffers are validated too, since Arrow trusts what it reads: a stranger's offsets could point anywhere.
    """
    names = batch.schema.names
    if len(set(names)) < len(names):
        raise ValueError(f"Columns must have different names, got {', '.join(names)}.")
    if missing := [name for name in required if name not in names]:
        raise ValueError(f"Missing column: {', '.join(missing)}.")
    select(schema, names)
    for field in batch.schema:
        if field.type != (wanted := schema.field(field.name).type):
            raise ValueError(f"Column {field.name} must be {wanted}, got {field.type}.")
    batch.validate(full=True)


def read_stream(data: bytes | pa.Buffer) -> list[pa.RecordBatch]:
    """The batches of an Arrow IPC stream, without copying: they keep ``data`` alive. No bytes are no batches.

    Raises ValueError when the bytes are no such stream.
    """
    if not len(data):
        return []
    try:
        with pa.ipc.open_stream(data) as reader:
            return list(reader)
    except (OSError, pa.ArrowException) as broken:
        raise ValueError(f"Not a complete Arrow IPC stream: {broken}") from broken


def write_stream(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> bytes:
    """An uncompressed Arrow IPC stream of batches that all have this schema."""
    return b"".join(stream_parts(schema, batches))


def stream_parts(schema: pa.Schema, batches: Sequence[pa.RecordBatch]) -> list[Any]:
    """The same in pieces that share the memory of the batches: together they are copied once, by whoever joins them."""
    parts = _Parts()
    with pa.ipc.new_stream(pa.PythonFile(parts, mode="w"), schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return parts.written


class _Parts:
    """A file that takes everything down without looking into it."""

    closed = False

    def __init__(self) -> None:
        self.written: list[Any] = []
        self.write = self.written.append

    def flush(self) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """What was written stays."""
