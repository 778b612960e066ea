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
    hex_digits,
    place_texts,
)
from rmqpull_client.transports.remoting.messages.joined_texts import Part, join_texts
from rmqpull_proto.even_texts import EvenTexts, find_even, join_even, make_texts
from rmqpull_proto.remoting import properties as names

WAIT_FOR_STORE: Mapping[str, str] = {names.WAIT_STORE_MSG_OK: "true"}
"""The property that Apache's producers add to each message."""
_NUMBER_BYTES = 6
_NAME_END, _VALUE_END = names.NAME_END.encode(), names.VALUE_END.encode()


def make_unique_keys(process: bytes, first_number: int, row_count: int) -> pa.Array:
    """Returns ids of consecutive numbers for messages without one, as hexadecimal text.

    ``process`` stands for the client: the address, the process id and the hash of a ``UniqKey``. A number has 48 bits:
    the milliseconds of a ``UniqKey``, and its counter as the low 16 bits. No number may be used twice.
    """
    numbers = (np.arange(row_count, dtype=np.uint64) + np.uint64(first_number)).astype(">u8")
    digits = hex_digits(numbers.view(np.uint8).reshape(-1, 8)[:, -_NUMBER_BYTES:])
    texts = join_even([process.hex().upper().encode(), digits], row_count)
    return make_texts(EvenTexts(texts, (texts.shape[1],)), pa.string())


def encode_property_texts(rows: pa.RecordBatch, more: Mapping[str, str | pa.Array] = WAIT_FOR_STORE) -> pa.Array:
    """Returns all properties of each row as one text, which is empty for a row without any.

    Reads the columns ``properties``, ``systemProperties``, ``tags``, ``keys``, ``msgId``, ``messageGroup`` and
    ``deliveryTimestamp`` as far as ``rows`` has them. ``more`` adds properties of RocketMQ: the same text for all rows,
    or a string for each. Nulls and empty texts are left out. RocketMQ's own come last, so they win over a user's of the
    same name. The texts are not checked for separators.
    """
    parts: list[Part] = []
    for column in ("properties", "systemProperties"):
        if column in rows.schema.names:
            parts += _encode_map(rows.column(column))
    for name, texts in (*_list_own_texts(rows), *more.items()):
        if not isinstance(texts, str):
            parts += _encode_own(name, texts)
    shared = "".join(
        f"{name}{names.NAME_END}{text}{names.VALUE_END}"
        for name, text in more.items()
        if isinstance(text, str) and text
    )
    return join_texts([*parts, shared.encode()], rows.num_rows, pa.string())


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


def _encode_own(name: str, texts: pa.Array) -> list[Part]:
    """Returns a property of each row as parts: name and value, each with its terminator; nothing without a value."""
    even = find_even(texts)
    if even is not None and even.data.shape[1]:
        return [f"{name}{names.NAME_END}".encode(), even.data, _VALUE_END]
    if texts.null_count < len(texts) and pc.any(pc.equal(pc.binary_length(texts), 0)).as_py():
        # In pyarrow 18, ``if_else`` reads a slice of texts wrongly.
        texts = pc.replace_with_mask(texts, pc.equal(pc.binary_length(texts), 0), pa.scalar(None, texts.type))
    return [pc.binary_join_element_wise(f"{name}{names.NAME_END}", texts, names.VALUE_END, "")]


def _encode_map(maps: pa.MapArray) -> list[Part]:
    """Returns the entries of each map as parts of the text of its row."""
    even = _find_even_entries(maps)
    return [_encode_entries(maps)] if even is None else even


def _find_even_entries(maps: pa.MapArray) -> list[Part] | None:
    """Returns the parts of entries of which each has the same length in all rows, such as an id."""
    count = len(maps)
    if not count or maps.null_count:
        return None
    bounds = maps.offsets.to_numpy()
    first, last = int(bounds[0]), int(bounds[-1])
    per_row = (last - first) // count
    if not per_row or not np.array_equal(bounds, np.arange(first, last + 1, per_row)):
        return None
    keys, values = (find_even(column.slice(first, last - first), per_row) for column in (maps.keys, maps.items))
    if keys is None or values is None or not all((*keys.widths, *values.widths)):
        return None
    keys_of_all = [part[0].tobytes() for part in keys.parts] if keys.is_constant else keys.parts
    entries = zip(keys_of_all, values.parts, strict=True)
    return [part for key, value in entries for part in (key, _NAME_END, value, _VALUE_END)]


def _encode_entries(maps: pa.MapArray) -> pa.Array:
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
