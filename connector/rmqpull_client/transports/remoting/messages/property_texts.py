"""The properties of many messages as one text each, made from columns (rules 4.8), and ids of messages (rules 4.9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.remoting.messages.byte_ranges import (
    as_text,
    get_bytes,
    get_offsets,
    make_hex,
    place_texts,
)
from rmqpull_proto.remoting import properties as names

WAIT_FOR_STORE: Mapping[str, str] = {names.WAIT_STORE_MSG_OK: "true"}
"""The property that Apache's producers add to each message."""
_NUMBER_BYTES = 6


def make_unique_keys(process: bytes, first_number: int, row_count: int) -> pa.Array:
    """Returns ids of consecutive numbers for messages without one, as hexadecimal text.

    ``process`` stands for the client: the address, the process id and the hash of a ``UniqKey``. A number has 48 bits:
    the milliseconds of a ``UniqKey``, and its counter as the low 16 bits. No number may be used twice.
    """
    numbers = (np.arange(row_count, dtype=np.uint64) + np.uint64(first_number)).astype(">u8")
    raw = np.empty((row_count, len(process) + _NUMBER_BYTES), np.uint8)
    raw[:, : len(process)] = np.frombuffer(process, np.uint8)
    raw[:, len(process) :] = numbers.view(np.uint8).reshape(-1, 8)[:, -_NUMBER_BYTES:]
    return make_hex(raw)


def encode_property_texts(rows: pa.RecordBatch, more: Mapping[str, str | pa.Array] = WAIT_FOR_STORE) -> pa.Array:
    """Returns all properties of each row as one text, which is empty for a row without any.

    Reads the columns ``properties``, ``systemProperties``, ``tags``, ``keys``, ``msgId``, ``messageGroup`` and
    ``deliveryTimestamp`` as far as ``rows`` has them. ``more`` adds properties of RocketMQ: the same text for all rows,
    or a string for each. Nulls and empty texts are left out. RocketMQ's own come last, so they win over a user's of the
    same name. The texts are not checked for separators.
    """
    parts = [*_encode_maps(rows), *(_encode_own(name, texts) for name, texts in _list_own_texts(rows))]
    shared = ""
    for name, texts in more.items():
        if isinstance(texts, str):
            shared += f"{name}{names.NAME_END}{texts}{names.VALUE_END}" if texts else ""
        else:
            parts.append(_encode_own(name, texts))
    if not parts:
        return pa.repeat(pa.scalar(shared), rows.num_rows)
    return pc.binary_join_element_wise(*parts, shared, "", null_handling="replace", null_replacement="")


def _list_own_texts(rows: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
    columns = set(rows.schema.names)
    for name, column in ((names.TAGS, "tags"), (names.UNIQ_KEY, "msgId"), (names.SHARDING_KEY, "messageGroup")):
        if column in columns:
            yield name, rows.column(column)
    if "keys" in columns:
        yield names.KEYS, pc.binary_join(rows.column("keys"), names.KEY_SEPARATOR)
    if "deliveryTimestamp" in columns:
        times = pc.cast(rows.column("deliveryTimestamp"), pa.timestamp("ms", "UTC"), safe=False)
        yield names.TIMER_DELIVER_MS, times.cast(pa.int64()).cast(pa.string())


def _encode_own(name: str, texts: pa.Array) -> pa.Array:
    """Returns a property of each row: name and value, each with its terminator; null without a value."""
    if texts.null_count < len(texts) and pc.any(pc.equal(pc.binary_length(texts), 0)).as_py():
        # In pyarrow 18, ``if_else`` reads a slice of texts wrongly.
        texts = pc.replace_with_mask(texts, pc.equal(pc.binary_length(texts), 0), pa.scalar(None, texts.type))
    return pc.binary_join_element_wise(f"{name}{names.NAME_END}", texts, names.VALUE_END, "")


def _encode_maps(rows: pa.RecordBatch) -> Iterator[pa.Array]:
    for column in ("properties", "systemProperties"):
        if column in rows.schema.names:
            yield _encode_map(rows.column(column))


def _encode_map(maps: pa.MapArray) -> pa.Array:
    """Returns the entries of each map as one text. Entries are adjacent in memory, so only offsets are computed."""
    count = len(maps)
    valid_rows = None
    if maps.null_count:
        is_valid: npt.NDArray[np.bool_] = maps.is_valid().to_numpy(zero_copy_only=False)
        valid_rows = np.flatnonzero(is_valid)
        maps = maps.filter(pa.array(is_valid))  # a null may have entries
    bounds = maps.offsets.to_numpy()
    first, last = int(bounds[0]), int(bounds[-1])
    keys, values = (column.slice(first, last - first) for column in (maps.keys, maps.items))
    entries = pc.binary_join_element_wise(keys, names.NAME_END, values, names.VALUE_END, "", null_handling="emit_null")
    is_entry = pc.and_(pc.greater(pc.binary_length(keys), 0), pc.greater(pc.binary_length(values), 0))
    if pc.all(is_entry, skip_nulls=False).as_py() is not True:
        # An entry without a name or a value becomes an empty text.
        entries = pc.fill_null(pc.if_else(is_entry, entries, ""), "")
    ends = get_offsets(entries)[bounds - first] if len(entries) else np.zeros(len(bounds), np.int32)
    content = pa.py_buffer(get_bytes(entries)) if len(entries) else pa.py_buffer(b"")
    texts = pa.Array.from_buffers(pa.string(), len(maps), [None, pa.py_buffer(np.ascontiguousarray(ends)), content])
    return texts if valid_rows is None else place_texts(as_text(texts), valid_rows, count)
