"""Stored messages that hold a whole batch as their body: inner batches (rules 4.7, 4.10).

Producers of version 5 send them to topics for batches. They are rare, so they are unwrapped one by one: into records of
their own, as if the broker had stored each message alone.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator

import pyarrow as pa

from rmqpull_proto.remoting import record_layout as layout
from rmqpull_proto.remoting.frames import WireError

INNER = layout.NEED_UNWRAP | layout.INNER_BATCH
"""A record with both flags must be unwrapped."""
UNPACKED_BYTES_MAX = 64 << 20
"""The largest inner batch after decompression; a broker's limit for a message is 4 MiB by default."""

_MESSAGE = struct.Struct(">i8xii")
_LENGTH = struct.Struct(">h")
_INT = struct.Struct(">i")
_LONG = struct.Struct(">q")
_CODECS = {0x100: "lz4", 0x200: "zstd"}


def unwrap(record: bytes, first_offset: int) -> Iterator[bytes]:
    """Returns a record for each message of an inner batch, from the queue offset ``first_offset`` on.

    ``record`` is a whole stored message whose lengths were checked. Raises WireError, perhaps after some messages.
    """
    (flags,) = _INT.unpack_from(record, layout.SYS_FLAG_AT)
    (queue_offset,) = _LONG.unpack_from(record, layout.QUEUE_OFFSET_AT)
    head_bytes = layout.HEAD_BYTES
    head_bytes += layout.IPV6_MORE_BYTES * (bool(flags & layout.BORN_HOST_IPV6) + bool(flags & layout.STORE_HOST_IPV6))
    (body_bytes,) = _INT.unpack_from(record, head_bytes - _INT.size)
    body_end = head_bytes + body_bytes
    is_long = _INT.unpack_from(record, layout.MAGIC_AT)[0] & 0xFFFFFFFF == layout.LONG_TOPIC_MAGIC
    topic_bytes = int.from_bytes(record[body_end : body_end + 1 + is_long], "big")
    topic = record[body_end : body_end + 1 + is_long + topic_bytes]
    head = bytearray(record[: head_bytes - _INT.size])
    _INT.pack_into(head, layout.SYS_FLAG_AT, flags & ~(INNER | layout.COMPRESSED | layout.COMPRESSION_TYPE))
    content = _unpack(record[head_bytes:body_end], flags)
    for offset, (flag, body, properties) in enumerate(_split(content), queue_offset):
        if offset < first_offset:
            continue
        rest = b"".join((_INT.pack(len(body)), body, topic, _LENGTH.pack(len(properties)), properties))
        _INT.pack_into(head, 0, len(head) + len(rest))
        _INT.pack_into(head, layout.BODY_CRC_AT, zlib.crc32(body) & 0x7FFFFFFF)
        _INT.pack_into(head, layout.FLAG_AT, flag)
        _LONG.pack_into(head, layout.QUEUE_OFFSET_AT, offset)
        yield bytes(head) + rest


def _split(content: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Returns flag, body and properties of each message of a batch."""
    at = 0
    while at < len(content):
        try:
            size, flag, body_bytes = _MESSAGE.unpack_from(content, at)
            body_at = at + _MESSAGE.size
            body_end = body_at + max(body_bytes, 0)
            (property_bytes,) = _LENGTH.unpack_from(content, body_end)
        except struct.error:
            raise WireError(f"its inner batch ends in the middle of a message, at byte {at}") from None
        properties_at = body_end + _LENGTH.size
        end = properties_at + property_bytes
        if body_bytes < 0 or property_bytes < 0 or end - at != size or end > len(content):
            raise WireError(f"the lengths in its inner batch do not add up to {size} bytes, at byte {at}")
        yield flag, content[body_at:body_end], content[properties_at:end]
        at = end


def _unpack(body: bytes, flags: int) -> bytes:
    if not flags & layout.COMPRESSED:
        return body
    codec = _CODECS.get(flags & layout.COMPRESSION_TYPE)
    try:
        if codec is None:
            stream = zlib.decompressobj()
            unpacked = stream.decompress(body, UNPACKED_BYTES_MAX + 1)
            if not stream.eof and len(unpacked) <= UNPACKED_BYTES_MAX:
                raise WireError("its inner batch ends before its compressed stream")
        else:
            with pa.CompressedInputStream(pa.BufferReader(body), codec) as reader:
                unpacked = reader.read(UNPACKED_BYTES_MAX + 1)
    except (zlib.error, OSError, pa.ArrowException) as error:
        raise WireError(f"its inner batch cannot be decompressed: {error}") from None
    if len(unpacked) > UNPACKED_BYTES_MAX:
        raise WireError(f"its inner batch has more than {UNPACKED_BYTES_MAX} bytes")
    return unpacked
