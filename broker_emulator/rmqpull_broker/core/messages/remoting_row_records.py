"""A few stored messages as records of the remoting protocol, message by message (rules 4.7, 4.8).

For messages that have just arrived. Columns pay off only from some dozens of messages: for one message they cost a
millisecond, and this costs some microseconds. The records equal those of ``stored_records``.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from itertools import accumulate

from rmqpull_broker.core.messages.hidden_properties import FLAG, SYS_FLAG
from rmqpull_broker.core.messages.message_properties import make_stored_properties
from rmqpull_broker.core.messages.remoting_records import Records, encode_topic, pack_host
from rmqpull_broker.core.model import BodyEncoding, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_proto.remoting import record_layout as layout
from rmqpull_proto.remoting.properties import NAME_END, VALUE_END

_CRC_BITS = 0x7FFFFFFF
_INT_BITS = 0xFFFFFFFF


def encode_few_records(
    rows: Sequence[StoredMessage],
    topic: str,
    queue_id: int,
    first_physical_offset: int,
    broker: BrokerProperties,
) -> Records:
    """Encodes messages of one queue like ``stored_records.encode_records``."""
    records = [_encode_row(row, topic, queue_id, first_physical_offset, broker) for row in rows]
    sizes = [len(record) for record in records]
    return Records(
        memoryview(b"".join(records)),
        array("q", accumulate(sizes, initial=0)),
        array("q", accumulate((len(row.message.body) for row in rows), initial=0)),
        max(sizes),
    )


def _encode_row(
    row: StoredMessage, topic: str, queue_id: int, first_physical_offset: int, broker: BrokerProperties
) -> bytes:
    message = row.message
    entries = make_stored_properties(message, broker).items()
    text = "".join(f"{name}{NAME_END}{value}{VALUE_END}" for name, value in entries).encode()
    born, stored = pack_host(message.born_host), pack_host(row.store_host)
    magic, topic_part = encode_topic(topic)
    own = message.system_properties
    sys_flag = _find_compression(message.body_encoding) | int(own.get(SYS_FLAG, "0"))
    sys_flag |= layout.BORN_HOST_IPV6 if len(born) == layout.IPV6_HOST_BYTES else 0
    sys_flag |= layout.STORE_HOST_IPV6 if len(stored) == layout.IPV6_HOST_BYTES else 0
    parts = (
        born,
        layout.STORE_TIMESTAMP.pack(row.store_timestamp_ms),
        stored,
        layout.TAIL.pack(row.reconsume_times, 0, len(message.body)),
        message.body,
        topic_part,
        layout.PROPERTIES_LENGTH.pack(len(text) & 0xFFFF),
        text,
    )
    head = layout.HEAD.pack(
        layout.BORN_HOST_AT + sum(map(len, parts)),
        magic,
        zlib.crc32(message.body) & _CRC_BITS,
        queue_id,
        int(own.get(FLAG, "0")) & _INT_BITS,
        row.queue_offset,
        first_physical_offset + row.queue_offset,
        sys_flag & _INT_BITS,
        message.born_timestamp_ms,
    )
    return b"".join((head, *parts))


def _find_compression(encoding: BodyEncoding) -> int:
    """Returns the bits of the system flag. GZIP gets those of zlib's old form, without a type."""
    if encoding is BodyEncoding.IDENTITY:
        return 0
    return 1 if encoding is BodyEncoding.GZIP else int(encoding)
