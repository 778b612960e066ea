"""Packed bodies, unpacked: the broker never does it, its consumers do (rules 3.10.2, 4.7)."""

from __future__ import annotations

import logging
import zlib

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.options.selection import BODIES_RAW, BODIES_RAW_IF_DAMAGED
from rmqpull_client.errors import BodyDamaged
from rmqpull_client.model import MessageQueue
from rmqpull_proto.columns import BODY_ENCODINGS

BODY_BYTES_MAX = 256 << 20
"""Bytes that a body may unpack to: a few packed ones could fill any memory."""
NEEDED_COLUMNS = ("bodyEncoding", "queueOffset")
"""What must travel with bodies."""

_IDENTITY = BODY_ENCODINGS["IDENTITY"]
_FRAMES = {b"\x04\x22\x4d\x18": "lz4", b"\x28\xb5\x2f\xfd": "zstd"}
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS

_logger = logging.getLogger(__name__)


def unpack(body: bytes) -> bytes:
    """What was packed as gzip, zlib, LZ4 frame or zstd, as its first bytes tell. Raises ValueError.

    The standard protocol has one word for all of them, so the encoding does not say which it is.
    """
    codec = _FRAMES.get(body[:4])
    try:
        unpacked = _unzip(body) if codec is None else _decode(body, codec)
    except (zlib.error, OSError) as error:
        raise ValueError(str(error)) from None
    if len(unpacked) > BODY_BYTES_MAX:
        raise ValueError(f"it has more than {BODY_BYTES_MAX} bytes when unpacked")
    return unpacked


def _unzip(body: bytes) -> bytes:
    stream = zlib.decompressobj(_GZIP_OR_ZLIB)
    unpacked = stream.decompress(body, BODY_BYTES_MAX + 1)
    if not stream.eof and len(unpacked) <= BODY_BYTES_MAX:
        raise ValueError("it ends too early")
    return unpacked


def _decode(body: bytes, codec: str) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(body), codec) as stream:
        unpacked: bytes = stream.read(BODY_BYTES_MAX + 1)
        return unpacked


class BodyUnpacker:
    """Unpacks the bodies of pulled batches, as option ``bodies`` says."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self.damaged_count = 0

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """What must travel with bodies."""
        return () if self._mode == BODIES_RAW else NEEDED_COLUMNS

    def bodies(self, queue: MessageQueue, batch: pa.RecordBatch) -> pa.Array:
        """The column ``body``. Raises BodyDamaged, naming queue and offset, for one that cannot be unpacked."""
        bodies = batch.column("body")
        if self._mode == BODIES_RAW:
            return bodies
        packed = pc.greater(pc.fill_null(batch.column("bodyEncoding"), _IDENTITY), _IDENTITY)
        if not pc.any(packed).as_py():
            return bodies
        rows = zip(bodies.to_pylist(), packed.to_pylist(), batch.column("queueOffset").to_pylist(), strict=True)
        return pa.array([self._body(queue, *row) for row in rows], bodies.type)

    def _body(self, queue: MessageQueue, body: bytes, is_packed: bool, offset: int) -> bytes:
        if not is_packed:
            return body
        try:
            return unpack(body)
        except ValueError as error:
            text = f"The body of the message at offset {offset} of queue {queue} cannot be unpacked: {error}."
            if self._mode != BODIES_RAW_IF_DAMAGED:
                raise BodyDamaged(
                    f"{text} Set option bodies to {BODIES_RAW_IF_DAMAGED} to get such bodies as they were sent."
                ) from None
            self.damaged_count += 1
            _logger.warning("%s It is given as it was sent; so were %d of this task.", text, self.damaged_count)
            return body
