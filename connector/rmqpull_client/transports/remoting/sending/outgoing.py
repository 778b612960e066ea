"""What a message has besides the columns of its row: its id, its system flag and its delay, also in columns."""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import datetime
from ipaddress import ip_address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.remoting.messages.property_texts import encode_property_texts, make_unique_keys
from rmqpull_client.transports.remoting.sending.queue_choice import Numbers
from rmqpull_proto import columns as wire
from rmqpull_proto.remoting import properties as names

DELAY_LEVELS_S = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
"""The delays of levels 1 to 18, by RocketMQ's default ``messageDelayLevel`` (rules 3.14.1)."""
_COUNTER_BITS = 16
_COMPRESSED = 1
_SYS_FLAGS = {
    wire.BODY_ENCODINGS["IDENTITY"]: 0,
    wire.BODY_ENCODINGS["GZIP"]: _COMPRESSED,
    **{wire.BODY_ENCODINGS[name]: wire.BODY_ENCODINGS[name] for name in ("LZ4", "ZSTD", "ZLIB")},
}
"""The system flag of a message by the encoding of its body (rules 4.7)."""


class MessageIds:
    """Gives each message a unique id, as Apache's clients do (rules 4.9)."""

    def __init__(self, host: str, pid: int) -> None:
        address = ip_address(host).packed
        producer = random.getrandbits(32)  # where Java has the hash of a class loader
        self._process = address + (pid & 0xFFFF).to_bytes(2, "big") + producer.to_bytes(4, "big")
        self._month = datetime.min
        self._next = 0

    def take(self, count: int, now_ms: int) -> pa.Array:
        """Returns ``count`` ids. ``now_ms`` is the time in milliseconds since the epoch."""
        now = datetime.fromtimestamp(now_ms / 1000)
        month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        number = int((now - month).total_seconds() * 1000) << _COUNTER_BITS
        if month == self._month:
            number = max(number, self._next)
        self._month, self._next = month, number + count
        return make_unique_keys(self._process, number, count)


def get_sys_flags(rows: pa.RecordBatch) -> Numbers:
    """Returns the system flag of each row."""
    if "bodyEncoding" not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int64)
    encodings = pc.fill_null(rows.column("bodyEncoding"), wire.BODY_ENCODINGS["IDENTITY"]).to_numpy()
    flags: Numbers = np.zeros(rows.num_rows, np.int64)
    for encoding, flag in _SYS_FLAGS.items():
        flags[encodings == encoding] = flag
    return flags


def make_property_texts(rows: pa.RecordBatch, ids: pa.Array, delays: Mapping[str, pa.Array]) -> pa.Array:
    """Returns the text of all properties of each row.

    Args:
        rows: Columns of ``rmqpull_client.PUBLISH_SCHEMA``.
        ids: Ids for messages that have none.
        delays: Columns of texts by the name of the property: ``DELAY`` or ``TIMER_DELIVER_MS``; null for no delay. And
            those of :func:`make_priorities`.
    """
    others = ("deliveryTimestamp", "priority", "msgId")
    names_of_columns = [name for name in rows.schema.names if name not in others]
    if "msgId" in rows.schema.names:
        given = rows.column("msgId")
        ids = pc.if_else(pc.fill_null(pc.equal(pc.binary_length(given), 0), True), ids, given)
    return encode_property_texts(rows.select(names_of_columns), {names.UNIQ_KEY: ids, **delays})


def make_delays(times: pa.Array, now_ms: int, has_timer: bool) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """Returns the properties that delay messages, and the rows that no delay level suits, with the reason.

    Times that are not in the future delay nothing. ``times`` has microseconds since the epoch. Brokers with a timer
    take any time. Others have levels: a message gets the first level that is not before its time.
    """
    times_ms = pc.fill_null(times.cast(pa.int64()), 0).to_numpy() // 1000
    is_late = times_ms > now_ms
    if not is_late.any():
        return {}, {}
    if has_timer:
        return {names.TIMER_DELIVER_MS: _as_texts(times_ms, is_late)}, {}
    levels = 1 + np.searchsorted(np.array(DELAY_LEVELS_S) * 1000, times_ms - now_ms)
    too_late = is_late & (levels > len(DELAY_LEVELS_S))
    reason = (
        "its deliveryTimestamp is more than two hours ahead. Brokers before 5.0 delay messages by levels, of at most "
        "two hours"
    )
    return {names.DELAY: _as_texts(levels, is_late & ~too_late)}, dict.fromkeys(
        np.flatnonzero(too_late).tolist(), reason
    )


def make_priorities(rows: pa.RecordBatch, delays: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Returns the property with the priority, null for none. A broker drops it from rows with a delay or group."""
    if "priority" not in rows.schema.names or rows.column("priority").null_count == rows.num_rows:
        return {}
    is_other = pa.repeat(False, rows.num_rows)
    for column in delays.values():
        is_other = pc.or_(is_other, column.is_valid())
    if "messageGroup" in rows.schema.names:
        is_other = pc.or_(is_other, pc.greater(pc.fill_null(pc.binary_length(rows.column("messageGroup")), 0), 0))
    texts = rows.column("priority").cast(pa.string())
    return {names.PRIORITY: pc.replace_with_mask(texts, is_other, pa.scalar(None, pa.string()))}


def _as_texts(numbers: npt.NDArray[Any], is_given: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(numbers.astype(np.int64), mask=~is_given).cast(pa.string())
