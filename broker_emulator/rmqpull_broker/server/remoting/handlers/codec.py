"""Converts messages of the remoting protocol into the broker's messages (rules 4.6 to 4.8, 4.10)."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from rmqpull_broker.core.errors import RequestFailed
from rmqpull_broker.core.messages.hidden_properties import hide_flags
from rmqpull_broker.core.model import BodyEncoding, Message
from rmqpull_proto.remoting import properties as names

_COMPRESSED = 1
_COMPRESSION_BITS = 0x700
_TRANSACTION_BITS = 0xC
_HOST_BITS = 0x30
"""The bits for hosts with IPv6 addresses, which the broker sets itself: a producer cannot know both hosts."""
_ENCODINGS = {0: BodyEncoding.GZIP, 0x100: BodyEncoding.LZ4, 0x200: BodyEncoding.ZSTD, 0x300: BodyEncoding.ZLIB}
NOT_KEPT = (names.MSG_REGION, names.TRACE_ON, names.CLUSTER, names.POP_CHECK)
"""Properties that are not stored. The broker sets the first three itself; the last one would be another broker's."""
_TIME_MS_MAX = (1 << 63) // 1000 - 1
_BATCH_HEAD = struct.Struct(">iiiii")  # size, magic, crc, flag, bytes of the body
_SHORT = struct.Struct(">h")


ONE_BY_ONE_MAX = 20_000
"""The most messages of a batch if they differ in more than property values, so that each is read separately."""


class Origin(NamedTuple):
    """What the header of a send says about all of its messages. ``host`` is the producer's, with its port."""

    sys_flag: int
    born_timestamp_ms: int
    host: str


def limit_time(time_ms: int) -> int:
    """Returns the nearest time that a column can hold: they end hundreds of thousands of years away."""
    return max(-_TIME_MS_MAX, min(time_ms, _TIME_MS_MAX))


def make_message(body: bytes, properties: Mapping[str, str], flag: int, origin: Origin) -> Message:
    """Returns the message that a producer has sent."""
    own = {name: value for name, value in properties.items() if name in names.OWN}
    take = own.pop
    keys, transactional = take(names.KEYS, ""), own.get(names.TRANSACTION_PREPARED, "").lower() == "true"
    for name in NOT_KEPT:
        take(name, None)
    encoding, sys_flag = split_sys_flag(origin.sys_flag, is_half=transactional)
    if flag or sys_flag:
        own |= hide_flags(flag, sys_flag)
    return Message(
        body=body,
        msg_id=take(names.UNIQ_KEY, ""),
        tags=take(names.TAGS, None),
        keys=tuple(keys.split(names.KEY_SEPARATOR)) if keys else (),
        properties={name: value for name, value in properties.items() if name not in names.OWN},
        message_group=take(names.SHARDING_KEY, None),
        delivery_timestamp_ms=_take_delivery_ms(own),
        born_timestamp_ms=origin.born_timestamp_ms,
        born_host=origin.host,
        body_encoding=encoding,
        trace_context=take(names.TRACE_CONTEXT, None),
        transactional=transactional,
        system_properties=own,
    )


def split_sys_flag(sys_flag: int, *, is_half: bool) -> tuple[BodyEncoding, int]:
    """Returns how a body is compressed, and the bits that follow neither from that nor from the hosts.

    A half message has transaction bits that follow from its properties.
    """
    encoding = BodyEncoding.IDENTITY
    others = sys_flag & ~(_HOST_BITS | _TRANSACTION_BITS if is_half else _HOST_BITS)
    if others & _COMPRESSED:
        encoding = _ENCODINGS.get(others & _COMPRESSION_BITS, BodyEncoding.GZIP)
        others &= ~_COMPRESSED if encoding is BodyEncoding.GZIP else ~(_COMPRESSED | _COMPRESSION_BITS)
    return encoding, others


def _take_delivery_ms(own: dict[str, str]) -> int | None:
    """Removes a delivery time from the properties, if a column can hold it and format it in the same way."""
    text = own.get(names.TIMER_DELIVER_MS)
    if text is None:
        return None
    try:
        delivery_ms = int(text)
    except ValueError:
        return None
    if str(delivery_ms) != text or not -_TIME_MS_MAX <= delivery_ms <= _TIME_MS_MAX:
        return None
    del own[names.TIMER_DELIVER_MS]
    return delivery_ms


def read_batch(body: memoryview, origin: Origin) -> Iterator[Message]:
    """Yields the messages of a batch, which are concatenated in its body.

    Like Apache's broker, uses only the lengths of bodies and properties. Raises RequestFailed.
    """
    count, at, end = 0, 0, len(body)
    while at < end:
        if count >= ONE_BY_ONE_MAX:
            raise RequestFailed(f"a batch has more than {count} messages that differ")
        try:
            _, _, _, flag, body_bytes = _BATCH_HEAD.unpack_from(body, at)
            begin = at + _BATCH_HEAD.size
            middle = begin + max(0, body_bytes)
            (property_bytes,) = _SHORT.unpack_from(body, middle)
        except struct.error:
            raise RequestFailed(f"a batch of {end} bytes ends within the message at byte {at}") from None
        following = middle + _SHORT.size + property_bytes
        if body_bytes < 0 or property_bytes < 0 or following > end:
            raise RequestFailed(f"a batch of {end} bytes has a message with wrong lengths at byte {at}")
        text = str(body[middle + _SHORT.size : following], errors="replace")
        yield make_message(bytes(body[begin:middle]), names.decode_properties(text), flag, origin)
        count, at = count + 1, following
