"""Messages of the remoting protocol as messages of the broker (rules 4.6 to 4.8, 4.10)."""

from __future__ import annotations

import struct

from rmqpull_broker.core.model import BodyEncoding, Message
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting.frames import WireError

COMPRESSED = 1
"""The bit of a system flag that says that a body is compressed."""
PREPARED = 4
_TRANSACTION_BITS = 12
_COMPRESSION_BITS = 0x700
_ENCODINGS = {0: BodyEncoding.GZIP, 0x100: BodyEncoding.LZ4, 0x200: BodyEncoding.ZSTD, 0x300: BodyEncoding.ZLIB}
_WRITTEN_BY_BROKER = (names.MSG_REGION, names.TRACE_ON, names.CLUSTER)
_BATCH_HEAD = struct.Struct(">iiiii")  # size, magic, crc, flag, bytes of the body
_SHORT = struct.Struct(">h")


def make_message(body: bytes, properties: str, sys_flag: int, born_timestamp_ms: int, born_host: str) -> Message:
    """Returns the message that a producer has sent. ``properties`` is the text of all of its properties."""
    given = names.decode_properties(properties)
    take = given.pop
    tags, keys, msg_id = take(names.TAGS, None), take(names.KEYS, ""), take(names.UNIQ_KEY, "")
    group, trace = take(names.SHARDING_KEY, None), take(names.TRACE_CONTEXT, None)
    delivery = take(names.TIMER_DELIVER_MS, None)
    for name in _WRITTEN_BY_BROKER:
        take(name, None)
    return Message(
        body=body,
        msg_id=msg_id,
        tags=tags,
        keys=tuple(keys.split(names.KEY_SEPARATOR)) if keys else (),
        properties={name: value for name, value in given.items() if name not in names.OWN},
        message_group=group,
        delivery_timestamp_ms=int(delivery) if delivery is not None and delivery.isdecimal() else None,
        born_timestamp_ms=born_timestamp_ms,
        born_host=born_host,
        body_encoding=_ENCODINGS.get(sys_flag & _COMPRESSION_BITS, BodyEncoding.GZIP)
        if sys_flag & COMPRESSED
        else BodyEncoding.IDENTITY,
        trace_context=trace,
        transactional=sys_flag & _TRANSACTION_BITS == PREPARED,
        system_properties={name: value for name, value in given.items() if name in names.OWN},
    )


def make_batch(body: memoryview, sys_flag: int, born_timestamp_ms: int, born_host: str) -> list[Message]:
    """Returns the messages of a batch, which stand one after the other in its body. Raises WireError."""
    messages = []
    at = 0
    while at < len(body):
        try:
            size, _, _, _, body_bytes = _BATCH_HEAD.unpack_from(body, at)
            begin = at + _BATCH_HEAD.size
            (property_bytes,) = _SHORT.unpack_from(body, begin + body_bytes)
        except struct.error:
            raise WireError(f"a batch of {len(body)} bytes ends within the message at byte {at}") from None
        middle = begin + body_bytes
        end = middle + _SHORT.size + property_bytes
        if body_bytes < 0 or property_bytes < 0 or end - at != size or end > len(body):
            raise WireError(
                f"a batch of {len(body)} bytes has a message of {size} bytes with wrong lengths at byte {at}"
            )
        text = bytes(body[middle + _SHORT.size : end]).decode(errors="replace")
        messages.append(make_message(bytes(body[begin:middle]), text, sys_flag, born_timestamp_ms, born_host))
        at = end
    return messages
