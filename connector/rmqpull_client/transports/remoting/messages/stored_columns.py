"""Stored messages as the columns of a pull, without a Python object per message (rules 4.7 to 4.9, 5.12.1)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from ipaddress import IPv4Address, IPv6Address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.remoting.messages.byte_ranges import (
    POOL,
    gather,
    get_bytes,
    get_offsets,
    make_bitmap,
    make_hex,
    make_numbers,
    place_texts,
    repeat_text,
)
from rmqpull_client.transports.remoting.messages.property_columns import PropertyTable
from rmqpull_client.transports.remoting.messages.record_numbers import Ints, Mask, read_fixed, read_numbers
from rmqpull_client.transports.remoting.messages.stored_messages import RecordTable
from rmqpull_proto import columns as wire
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting import record_layout as layout

_BLANK = ord(names.KEY_SEPARATOR)
_US_PER_MS = 1000
_MS_MAX = (1 << 63) // _US_PER_MS - 1
_NUMBER = r"^[+-]?[0-9]{1,15}$"


def decode_columns(
    table: RecordTable, columns: Sequence[str] = (), rows: slice | npt.NDArray[Any] | None = None
) -> pa.RecordBatch:
    """Returns one row per record with the named columns, or those of ``PULL_SCHEMA`` if none is named.

    Only what the columns need is decoded. ``rows`` selects records: a slice, a mask, or ascending indexes. The batch
    does not refer to the table's data. Raises ValueError for unknown columns.
    """
    schema = wire.select_pulled(columns)
    decoder = _Decoder(table if rows is None else table.select(rows))
    return pa.RecordBatch.from_arrays([_COLUMNS[field.name](decoder) for field in schema], schema=schema)


class _Decoder:
    """The columns of a table. What several columns need is read once."""

    def __init__(self, table: RecordTable) -> None:
        self._table = table
        flags = table.sys_flags
        self._has_ipv6 = bool((flags & (layout.BORN_HOST_IPV6 | layout.STORE_HOST_IPV6)).any())
        more = layout.IPV6_MORE_BYTES
        self._born_more = more * ((flags & layout.BORN_HOST_IPV6) != 0) if self._has_ipv6 else 0
        self._store_more = more * ((flags & layout.STORE_HOST_IPV6) != 0) if self._has_ipv6 else 0

    @functools.cached_property
    def _properties(self) -> PropertyTable:
        return PropertyTable(self._table.data, self._table.property_starts, self._table.property_ends)

    def make_queue_offsets(self) -> pa.Array:
        return make_numbers(pa.int64(), self._table.queue_offsets)

    def make_msg_ids(self) -> pa.Array:
        """Returns the producer's ids, or the broker's ids of messages that have none."""
        found = self._properties.make_texts(names.UNIQ_KEY)
        if not found.null_count:
            return found
        is_missing = np.asarray(found.is_null().to_numpy(zero_copy_only=False))
        return pc.replace_with_mask(found, pa.array(is_missing), self._make_offset_ids(np.flatnonzero(is_missing)))

    def _make_offset_ids(self, rows: npt.NDArray[np.intp]) -> pa.Array:
        """Returns the broker's ids: its address and the physical offset in hexadecimal digits."""
        table = self._table
        is_ipv6 = (table.sys_flags[rows] & layout.STORE_HOST_IPV6) != 0
        host_at = table.positions[rows] + layout.STORE_HOST_AT
        host_at += self._born_more if isinstance(self._born_more, int) else self._born_more[rows]
        offset_at = table.positions[rows] + layout.PHYSICAL_OFFSET_AT
        parts, order = [], []
        for width, wanted in ((layout.IPV4_HOST_BYTES, ~is_ipv6), (layout.IPV6_HOST_BYTES, is_ipv6)):
            host = read_fixed(table.data, host_at[wanted], width).view(np.uint8).reshape(-1, width)
            offset = read_fixed(table.data, offset_at[wanted], 8).view(np.uint8).reshape(-1, 8)
            parts.append(make_hex(np.concatenate([host, offset], axis=1)))
            order.append(np.flatnonzero(wanted))
        places = np.argsort(np.concatenate(order))
        return pa.concat_arrays(parts).take(make_numbers(pa.int64(), places))

    def make_tags(self) -> pa.Array:
        return self._properties.make_texts(names.TAGS)

    def make_keys(self) -> pa.Array:
        """Returns the keys of each message, which one property holds, separated by blanks; null without keys."""
        texts = self._properties.make_texts(names.KEYS)
        if texts.null_count == len(texts):
            return pa.nulls(len(texts), wire.KEYS)
        offsets, characters = get_offsets(texts), get_bytes(texts)
        is_blank = characters == _BLANK
        if not is_blank.any():
            return _make_lists(np.diff(offsets) > 0, as_values(texts, offsets))
        is_key = ~is_blank
        begins = is_key.copy()
        begins[1:] &= is_blank[:-1]
        firsts = offsets[:-1][np.diff(offsets) > 0]
        begins[firsts] = is_key[firsts]
        starts = np.flatnonzero(begins)
        ends = is_key.copy()
        ends[:-1] &= is_blank[1:]
        lasts = offsets[1:][np.diff(offsets) > 0] - 1
        ends[lasts] = is_key[lasts]
        keys = gather(characters, starts, np.flatnonzero(ends) + 1)
        counts = np.diff(np.searchsorted(starts, offsets))
        return _make_lists(counts, place_texts(keys, None, len(keys)))

    def make_bodies(self) -> pa.Array:
        return gather(self._table.data, self._table.body_starts, self._table.body_ends)

    def make_user_properties(self) -> pa.Array:
        return self._properties.make_user_maps()

    def make_system_properties(self) -> pa.Array:
        return self._properties.make_system_maps()

    def make_born_timestamps(self) -> pa.Array:
        return self._make_times(layout.BORN_TIMESTAMP_AT)

    def make_store_timestamps(self) -> pa.Array:
        return self._make_times(layout.STORE_TIMESTAMP_AT + self._born_more)

    def _make_times(self, at: Any) -> pa.Array:
        return _convert_ms(read_numbers(self._table.data, self._table.positions + at, ">i8"))

    def make_born_hosts(self) -> pa.Array:
        """Returns the address and port that Java's clients show. The host that a proxy's client names is a property."""
        return self._make_hosts(layout.BORN_HOST_AT, layout.BORN_HOST_IPV6)

    def make_store_hosts(self) -> pa.Array:
        return self._make_hosts(layout.STORE_HOST_AT + self._born_more, layout.STORE_HOST_IPV6)

    def _make_hosts(self, at: Any, ipv6_flag: int) -> pa.Array:
        """Returns hosts as text. Formats each host once: there are few."""
        starts = self._table.positions + at
        if not self._has_ipv6:
            packed = read_fixed(self._table.data, starts, layout.IPV4_HOST_BYTES).view(np.uint64)
            if len(packed) and bool((packed == packed[0]).all()):
                return repeat_text(format_host(packed[:1].tobytes()), len(packed))
            hosts = make_numbers(pa.binary(layout.IPV4_HOST_BYTES), packed)
        else:
            is_ipv6 = (self._table.sys_flags & ipv6_flag) != 0
            hosts = gather(
                self._table.data, starts, starts + np.where(is_ipv6, layout.IPV6_HOST_BYTES, layout.IPV4_HOST_BYTES)
            )
        encoded = pc.dictionary_encode(hosts, memory_pool=POOL)
        texts = pa.array([format_host(host) for host in encoded.dictionary.to_pylist()], pa.string())
        return pc.take(texts, encoded.indices, memory_pool=POOL)

    def make_reconsume_times(self) -> pa.Array:
        at = layout.RECONSUME_TIMES_AT + self._born_more + self._store_more
        return make_numbers(pa.int32(), read_numbers(self._table.data, self._table.positions + at, ">i4"))

    def make_message_groups(self) -> pa.Array:
        return self._properties.make_texts(names.SHARDING_KEY)

    def make_delivery_timestamps(self) -> pa.Array:
        """Returns the delivery times that producers asked for, or that the broker derived from a delay."""
        asked = self._properties.make_texts(names.TIMER_DELIVER_MS)
        derived = self._properties.make_texts(names.TIMER_OUT_MS) if asked.null_count else asked
        if asked.null_count == derived.null_count == len(asked):
            return pa.nulls(len(asked), wire.TIMESTAMP)
        texts = pc.coalesce(asked, derived)
        # Up to Arrow 21 at least, if_else with a null returns wrong texts for a slice.
        is_other = pc.invert(pc.match_substring_regex(texts, _NUMBER))
        numbers = pc.replace_with_mask(texts, is_other, pa.scalar(None, pa.string()))
        milliseconds = pc.cast(pc.utf8_ltrim(numbers, "+"), pa.int64())
        return pc.cast(pc.multiply(milliseconds, _US_PER_MS), wire.TIMESTAMP)

    def make_body_encodings(self) -> pa.Array:
        flags = self._table.sys_flags
        encodings = np.full(len(flags), wire.BODY_ENCODINGS["IDENTITY"], np.int32)
        if (flags & layout.COMPRESSED).any():
            types = flags & layout.COMPRESSION_TYPE
            compressed = np.where(types == 0, wire.BODY_ENCODINGS["GZIP"], types | layout.COMPRESSED)
            encodings = np.where(flags & layout.COMPRESSED, compressed, encodings).astype(np.int32)
        return make_numbers(pa.int32(), encodings)


_COLUMNS: Mapping[str, Callable[[_Decoder], pa.Array]] = {
    "queueOffset": _Decoder.make_queue_offsets,
    "msgId": _Decoder.make_msg_ids,
    "tags": _Decoder.make_tags,
    "keys": _Decoder.make_keys,
    "body": _Decoder.make_bodies,
    "properties": _Decoder.make_user_properties,
    "bornTimestamp": _Decoder.make_born_timestamps,
    "bornHost": _Decoder.make_born_hosts,
    "storeTimestamp": _Decoder.make_store_timestamps,
    "storeHost": _Decoder.make_store_hosts,
    "reconsumeTimes": _Decoder.make_reconsume_times,
    "messageGroup": _Decoder.make_message_groups,
    "deliveryTimestamp": _Decoder.make_delivery_timestamps,
    "bodyEncoding": _Decoder.make_body_encodings,
    "systemProperties": _Decoder.make_system_properties,
}


def as_values(texts: pa.Array, offsets: npt.NDArray[np.int32]) -> pa.Array:
    """Returns the texts without the nulls among them."""
    if not texts.null_count:
        return texts
    kept = np.concatenate([offsets[:1], offsets[1:][np.diff(offsets) > 0]])
    return pa.Array.from_buffers(pa.string(), len(kept) - 1, [None, pa.py_buffer(kept), texts.buffers()[2]])


def _make_lists(counts: npt.NDArray[Any], values: pa.Array) -> pa.Array:
    """Returns lists with these numbers of values; null instead of an empty list."""
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    is_valid: Mask = counts > 0
    bitmap = None if is_valid.all() else make_bitmap(is_valid)
    return pa.Array.from_buffers(wire.KEYS, len(counts), [bitmap, pa.py_buffer(offsets)], children=[values])


def _convert_ms(milliseconds: Ints) -> pa.Array:
    return make_numbers(wire.TIMESTAMP, np.clip(milliseconds, -_MS_MAX, _MS_MAX) * _US_PER_MS)


def format_host(host: bytes) -> str:
    """Returns address and port as Java does: the parts of IPv6 without leading zeros, none left out."""
    address, port = host[:-4], int.from_bytes(host[-4:], "big", signed=True)
    if len(address) == layout.IPV4_HOST_BYTES - 4:
        return f"{IPv4Address(address)}:{port}"
    if (mapped := IPv6Address(address).ipv4_mapped) is not None:
        return f"{mapped}:{port}"
    return ":".join(f"{int.from_bytes(address[at : at + 2], 'big'):x}" for at in range(0, 16, 2)) + f":{port}"
