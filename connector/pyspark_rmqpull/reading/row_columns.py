"""Pulled rows as the Arrow batches that Spark takes, in the schema that a query asked for, with bodies decompressed."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from pyspark_rmqpull.errors import BodyDamaged
from pyspark_rmqpull.options.selection import BODIES_RAW, BODIES_RAW_IF_DAMAGED, BODIES_UNPACKED
from rmqpull_client.flow import BATCH_BYTES, BATCH_ROWS
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import QueueRows
from rmqpull_proto import columns as wire

DECOMPRESSED_BYTES_MAX = 256 << 20
"""The largest decompressed body: without a limit a few small bodies could fill any memory."""

_OF_QUEUE: dict[str, pa.DataType] = {"topic": pa.string(), "brokerName": pa.string(), "queueId": pa.int32()}
"""Columns that are constant within a queue, so they are not pulled."""
_FROM_PROPERTIES = {"priority": "systemProperties"}
"""Columns that are made from another one, which is pulled instead. So every server has them."""
_FOR_DECOMPRESSION = ("bodyEncoding", "queueOffset")
_IDENTITY = wire.BODY_ENCODINGS["IDENTITY"]
_FRAMES = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}
_PRIORITY = r"^\+?[0-9]{1,10}$"
_INT_MAX = (1 << 31) - 1
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS

_logger = logging.getLogger(__name__)


class RowColumns:
    """Makes Spark's batches from pulled rows.

    Spark takes a batch only when its Arrow schema is exactly that of the first one (rules 7.9).
    """

    def __init__(self, schema: StructType, bodies: str = BODIES_UNPACKED) -> None:
        self._decompressor = BodyDecompressor(bodies)
        types = {field.name: field.type for field in wire.PULLABLE_SCHEMA} | _OF_QUEUE | {"priority": pa.int32()}
        self._schema = pa.schema([(name, types[name]) for name in schema.fieldNames()])

    @property
    def columns_to_pull(self) -> list[str]:
        """The columns that the broker has to send: at least one, whose length gives the number of rows."""
        chosen = (_FROM_PROPERTIES.get(name, name) for name in self._schema.names if name not in _OF_QUEUE)
        names = list(dict.fromkeys(chosen))
        if "body" in names:
            names += [name for name in self._decompressor.needed_columns if name not in names]
        return names or ["queueOffset"]

    def make_batches(self, rows: Sequence[QueueRows]) -> Iterator[pa.RecordBatch]:
        """Makes batches of all rows, queue by queue. A stored batch that fills one of Spark's is not copied."""
        return map(self._make_batch, _group_batches(rows))

    def _make_batch(self, rows: Sequence[QueueRows]) -> pa.RecordBatch:
        arrays = [self._make_column(field, rows) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _make_column(self, field: pa.Field, rows: Sequence[QueueRows]) -> pa.Array:
        if field.name in _OF_QUEUE:
            pieces = [_repeat_queue_value(field, entry) for entry in rows]
        elif field.name == "body":
            pieces = [
                self._decompressor.decompress_bodies(entry.queue, batch) for entry in rows for batch in entry.batches
            ]
        elif field.name == "priority":
            pieces = [_read_priorities(batch.column("systemProperties")) for entry in rows for batch in entry.batches]
        else:
            pieces = [batch.column(field.name) for entry in rows for batch in entry.batches]
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _group_batches(rows: Sequence[QueueRows]) -> Iterator[list[QueueRows]]:
    """Groups stored batches in their order, as many as make one of Spark's."""
    group: list[QueueRows] = []
    row_count = byte_count = 0
    for queue, batches in rows:
        for batch in batches:
            row_count += batch.num_rows
            byte_count += batch.nbytes
            if group and (row_count > BATCH_ROWS or byte_count > BATCH_BYTES):
                yield group
                group, row_count, byte_count = [], batch.num_rows, batch.nbytes
            group.append(QueueRows(queue, [batch]))
    if group:
        yield group


def _repeat_queue_value(field: pa.Field, entry: QueueRows) -> pa.Array:
    topic, broker_name, queue_id = entry.queue
    value: Any = {"topic": topic, "brokerName": broker_name, "queueId": queue_id}[field.name]
    return pa.repeat(pa.scalar(value, field.type), sum(batch.num_rows for batch in entry.batches))


def _read_priorities(properties: pa.MapArray) -> pa.Array:
    """Returns the priority of each message; null if it has none, or not a number from 0 (rules 3.19)."""
    texts = pc.map_lookup(properties, wire.PRIORITY_PROPERTY, "last")
    is_other = pc.invert(pc.fill_null(pc.match_substring_regex(texts, _PRIORITY), False))
    # Up to Arrow 21 at least, if_else with a null returns wrong texts for a slice.
    numbers = pc.utf8_ltrim(pc.replace_with_mask(texts, is_other, pa.scalar(None, pa.string())), "+").cast(pa.int64())
    is_large = pc.fill_null(pc.greater(numbers, _INT_MAX), False)
    return pc.replace_with_mask(numbers, is_large, pa.scalar(None, pa.int64())).cast(pa.int32())


class BodyDecompressor:
    """Decompresses the bodies of pulled batches as option ``bodies`` says. Brokers never do it (rules 3.10.2, 4.7)."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.damaged_count = 0

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """The columns that decompressing needs in addition to the bodies."""
        return () if self._mode == BODIES_RAW else _FOR_DECOMPRESSION

    def decompress_bodies(self, queue: MessageQueue, batch: pa.RecordBatch) -> pa.Array:
        """Returns the column ``body``, decompressed. Raises BodyDamaged, which names queue and offset."""
        bodies = batch.column("body")
        if self._mode == BODIES_RAW:
            return bodies
        compressed = pc.greater(pc.fill_null(batch.column("bodyEncoding"), _IDENTITY), _IDENTITY)
        if not pc.any(compressed).as_py():
            return bodies
        rows = zip(bodies.to_pylist(), compressed.to_pylist(), batch.column("queueOffset").to_pylist(), strict=True)
        return pa.array([self._decompress_body(queue, *row) for row in rows], bodies.type)

    def _decompress_body(self, queue: MessageQueue, body: bytes, is_compressed: bool, offset: int) -> bytes:
        if not is_compressed:
            return body
        try:
            return decompress(body)
        except ValueError as error:
            text = f"Cannot decompress the body of the message at offset {offset} of queue {queue}: {error}."
            if self._mode != BODIES_RAW_IF_DAMAGED:
                raise BodyDamaged(
                    f"{text} To read such bodies as they were sent, set option bodies to {BODIES_RAW_IF_DAMAGED}."
                ) from None
            self.damaged_count += 1
            _logger.warning("%s The row has it as it was sent (%d such bodies in this task).", text, self.damaged_count)
            return body


def decompress(body: bytes) -> bytes:
    """Decompresses gzip, zlib, LZ4 frame or zstd. Raises ValueError.

    The first bytes show the format, because the standard protocol has one encoding for all of them.
    """
    codec = _FRAMES.get(body[:4])
    try:
        decompressed = _decompress_zlib(body) if codec is None else _decompress_frame(body, codec)
    except (zlib.error, OSError) as error:
        raise ValueError(str(error)) from None
    if len(decompressed) > DECOMPRESSED_BYTES_MAX:
        raise ValueError(f"it has more than {DECOMPRESSED_BYTES_MAX} bytes when decompressed")
    return decompressed


def _decompress_zlib(body: bytes) -> bytes:
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    decompressed = stream.decompress(body, DECOMPRESSED_BYTES_MAX + 1)
    if not stream.eof and len(decompressed) <= DECOMPRESSED_BYTES_MAX:
        raise ValueError("it is incomplete")
    return decompressed


def _decompress_frame(body: bytes, codec: str) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
        decompressed: bytes = stream.read(DECOMPRESSED_BYTES_MAX + 1)
        return decompressed
