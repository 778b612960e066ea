"""Stored messages as records of the remoting protocol, the body of a response to a pull (rules 4.7, 4.8).

Records are made from columns. The only Python object per message is its checksum. Numbers are written without NumPy,
which the broker does not load: byte by byte, each byte of all rows at once.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages.born_hosts import make_named_columns, remove_port
from rmqpull_broker.core.messages.columns import format_milliseconds, set_null, slice_live_values
from rmqpull_broker.core.messages.hidden_properties import (
    FLAG,
    SYS_FLAG,
    drop_hidden_columns,
    has_hidden,
    read_hidden,
)
from rmqpull_broker.core.messages.message_properties import NOT_RESERVED
from rmqpull_broker.core.model import BodyEncoding
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting import record_layout as layout

_TAIL_BYTES = layout.HEAD_BYTES - layout.RECONSUME_TIMES_AT
_INT64_BYTES = 8
_PORT_BYTES = 4
_NO_HOST = bytes(layout.IPV4_HOST_BYTES)
_WITHOUT_HIGHEST_BIT = bytes(byte & 0x7F for byte in range(256))


class Records(NamedTuple):
    """Records one after the other. Record ``i`` is ``data[ends[i]:ends[i + 1]]``.

    The bodies of the records before it have ``body_ends[i]`` bytes. No record is larger than ``size_max``.
    """

    data: memoryview
    ends: array[int]
    body_ends: array[int]
    size_max: int


def encode_records(
    rows: pa.RecordBatch, topic: str, queue_id: int, first_physical_offset: int, common: Mapping[str, str]
) -> Records:
    """Encodes the rows of ``columns.STORED_SCHEMA``, which belong to one queue of ``topic``.

    ``first_physical_offset`` is the physical offset that queue offset 0 would have; the others follow it.
    ``common`` are the properties that all messages of the broker have.
    """
    count = rows.num_rows
    bodies, texts = rows.column("body"), encode_property_texts(rows, common)
    body_bytes, property_bytes = _count_bytes(bodies), _count_bytes(texts)
    born, stored = _pack_hosts(rows.column("bornHost")), _pack_hosts(rows.column("storeHost"))
    magic, topic_part = encode_topic(topic)
    fixed_bytes = layout.RECORD_BYTES_MIN - 1 + len(topic_part)
    hosts_more = pc.multiply(pc.add(born.is_ipv6, stored.is_ipv6), layout.IPV6_MORE_BYTES)
    sizes = pc.add(pc.add(pc.add(body_bytes, property_bytes), hosts_more), fixed_bytes)
    flags = pc.add(
        _read_compression_flags(rows.column("bodyEncoding")),
        pc.add(pc.multiply(born.is_ipv6, layout.BORN_HOST_IPV6), pc.multiply(stored.is_ipv6, layout.STORE_HOST_IPV6)),
    )
    offsets = rows.column("queueOffset")
    head = _Fixed(count, layout.BORN_HOST_AT)
    head.put(layout.SIZE_AT, 4, sizes)
    head.put_constant(layout.MAGIC_AT, 4, magic)
    head.put_checksums(layout.BODY_CRC_AT, bodies)
    head.put_constant(layout.QUEUE_ID_AT, 4, queue_id)
    own = rows.column("systemProperties")
    if has_hidden(own):
        head.put(layout.FLAG_AT, 4, read_hidden(own, FLAG))
        flags = pc.bit_wise_or(flags, read_hidden(own, SYS_FLAG))
    head.put(layout.QUEUE_OFFSET_AT, 8, offsets)
    head.put(layout.PHYSICAL_OFFSET_AT, 8, pc.add(offsets, first_physical_offset))
    head.put(layout.SYS_FLAG_AT, 4, flags)
    head.put(layout.BORN_TIMESTAMP_AT, 8, _read_ms(rows.column("bornTimestamp")))
    times = _Fixed(count, 8)
    times.put(0, 8, _read_ms(rows.column("storeTimestamp")))
    tail = _Fixed(count, _TAIL_BYTES)
    tail.put(0, 4, rows.column("reconsumeTimes").cast(pa.int64()))
    tail.put(layout.BODY_LENGTH_AT - layout.RECONSUME_TIMES_AT, 4, body_bytes)
    lengths = _Fixed(count, 2)
    lengths.put(0, 2, property_bytes)
    joined = pc.binary_join_element_wise(
        head.to_array(), born.packed, times.to_array(), stored.packed, tail.to_array(), bodies, topic_part,
        lengths.to_array(), texts.cast(pa.binary()), b"", null_handling="replace", null_replacement=b"",
    )  # fmt: skip
    ends = _make_ends(sizes)
    data = memoryview(joined.buffers()[2])[: ends[-1]]
    return Records(data, ends, _make_ends(body_bytes), pc.max(sizes).as_py())


def encode_topic(topic: str) -> tuple[int, bytes]:
    """Returns the magic code, which depends on the length of the topic, and the topic with its length."""
    encoded = topic.encode()
    if len(encoded) <= layout.SHORT_TOPIC_BYTES:
        return layout.MAGIC, bytes([len(encoded)]) + encoded
    return layout.LONG_TOPIC_MAGIC, len(encoded).to_bytes(2, "big") + encoded


def _make_ends(sizes: pa.Array) -> array[int]:
    ends = array("q", [0])
    ends.frombytes(read_numbers(pc.cumulative_sum(sizes)))
    return ends


def encode_property_texts(rows: pa.RecordBatch, common: Mapping[str, str]) -> pa.Array:
    """Returns all properties of each row as one text (rules 4.8). ``common`` comes last."""
    delivery = rows.column("deliveryTimestamp")
    own = {
        names.TAGS: rows.column("tags"),
        names.KEYS: pc.binary_join(rows.column("keys"), names.KEY_SEPARATOR),
        names.UNIQ_KEY: rows.column("msgId"),
        names.SHARDING_KEY: rows.column("messageGroup"),
        names.TRACE_CONTEXT: rows.column("traceContext"),
        names.TIMER_DELIVER_MS: None if delivery.null_count == len(delivery) else format_milliseconds(delivery),
    }
    own |= make_named_columns(rows)
    parts = [_join_map(_drop_replaced(rows)), _join_map(drop_hidden_columns(rows.column("systemProperties")))]
    for name, texts in own.items():
        if texts is not None and texts.null_count < len(texts):
            parts += _list_own_parts(name, texts)
    shared = "".join(f"{name}{names.NAME_END}{value}{names.VALUE_END}" for name, value in common.items())
    return pc.binary_join_element_wise(*parts, shared, "", null_handling="replace", null_replacement="")


def _join_map(maps: pa.Array) -> pa.Array:
    entries = pc.binary_join_element_wise(maps.keys, maps.items, names.NAME_END)
    entries = pc.binary_join_element_wise(entries, names.VALUE_END, "")
    return pc.binary_join(pa.ListArray.from_arrays(maps.offsets, entries), "")


def _drop_replaced(rows: pa.RecordBatch) -> pa.Array:
    """Returns the users' properties without those that RocketMQ's own of the same name replace. Few messages have such
    properties, so they are handled one by one."""
    maps = rows.column("properties")
    found = pc.is_in(slice_live_values(maps, maps.keys), value_set=pa.array(NOT_RESERVED))
    if not found.true_count:
        return maps
    given = maps.to_pylist()
    for name, column in NOT_RESERVED.items():
        own = rows.column(column).is_valid().to_pylist()
        given = [
            [entry for entry in entries if entry[0] != name] if entries and is_replaced else entries
            for entries, is_replaced in zip(given, own, strict=True)
        ]
    return pa.array(given, maps.type)


def _list_own_parts(name: str, texts: pa.Array) -> list[Any]:
    """Returns the parts that, joined, are a property's entry in each row: nothing where it is missing or empty."""
    entry = f"{name}{names.NAME_END}", texts, names.VALUE_END
    is_empty = pc.fill_null(pc.equal(texts, ""), True)
    if not is_empty.true_count:
        return [*entry]
    return [set_null(pc.binary_join_element_wise(*entry, ""), is_empty)]


class _Fixed:
    """A block of ``width`` bytes for each row, which holds big-endian numbers."""

    def __init__(self, count: int, width: int) -> None:
        self._count, self._width = count, width
        self._bytes = bytearray(count * width)

    def put(self, at: int, size: int, numbers: pa.Array) -> None:
        """Writes the low ``size`` bytes of int64 numbers at byte ``at`` of each row."""
        values = read_numbers(numbers)
        for byte in range(size):
            self._bytes[at + size - 1 - byte :: self._width] = values[byte::_INT64_BYTES]

    def put_checksums(self, at: int, bodies: pa.Array) -> None:
        """Writes the CRC-32 of each body without its highest bit (rules 4.7)."""
        checksums = array("Q", map(zlib.crc32, bodies.fill_null(b"").to_pylist())).tobytes()
        for byte in range(3):
            self._bytes[at + 3 - byte :: self._width] = checksums[byte::_INT64_BYTES]
        self._bytes[at :: self._width] = checksums[3::_INT64_BYTES].translate(_WITHOUT_HIGHEST_BIT)

    def put_constant(self, at: int, size: int, number: int) -> None:
        """Writes the same number into each row."""
        for byte, value in enumerate((number & (1 << 8 * size) - 1).to_bytes(size, "big")):
            if value:
                self._bytes[at + byte :: self._width] = bytes([value]) * self._count

    def to_array(self) -> pa.Array:
        data_type = pa.binary(self._width)
        return pa.Array.from_buffers(data_type, self._count, [None, pa.py_buffer(self._bytes)]).cast(pa.binary())


def read_numbers(numbers: pa.Array) -> bytes:
    """Returns the little-endian bytes of an int64 array without nulls."""
    if not len(numbers):
        return b""
    start = numbers.offset * _INT64_BYTES
    return bytes(memoryview(numbers.buffers()[1])[start : start + len(numbers) * _INT64_BYTES])


def _count_bytes(values: pa.Array) -> pa.Array:
    return pc.cast(pc.fill_null(pc.binary_length(values), 0), pa.int64())


def _read_ms(times: pa.Array) -> pa.Array:
    return pc.divide(pc.fill_null(times.cast(pa.int64()), 0), 1000)


def _read_compression_flags(encodings: pa.Array) -> pa.Array:
    """Returns the bits of system flags (rules 4.7). GZIP gets those of zlib's old form, without a type."""
    numbers = encodings.cast(pa.int64())
    flags = pc.if_else(pc.equal(numbers, int(BodyEncoding.GZIP)), 1, numbers)
    return pc.if_else(pc.equal(numbers, int(BodyEncoding.IDENTITY)), 0, flags)


class _Hosts(NamedTuple):
    packed: pa.Array
    is_ipv6: pa.Array
    """1 or 0 for each row."""


def _pack_hosts(hosts: pa.Array) -> _Hosts:
    """Packs addresses and ports, each distinct one once, because there are few."""
    encoded = pc.dictionary_encode(pc.fill_null(hosts, ""))
    packed: Sequence[bytes] = [pack_host(text) for text in encoded.dictionary.to_pylist()]
    is_ipv6 = pa.array([int(len(host) > len(_NO_HOST)) for host in packed], pa.int64())
    return _Hosts(pa.array(packed, pa.binary()).take(encoded.indices), is_ipv6.take(encoded.indices))


@lru_cache(maxsize=1024)
def pack_host(text: str) -> bytes:
    """Returns ``host:port``, or a host alone, as bytes of an address and a port; zeros for any other text."""
    address, _, port = text.rpartition(":")
    for host, its_port in ((text, "0"), (address, port)):
        try:
            number: Any = ip_address(host.strip("[]"))
            return bytes(number.packed) + int(its_port).to_bytes(4, "big")
        except (ValueError, OverflowError):
            continue
    return _NO_HOST


def show_host(text: str) -> str:
    """Returns the address and port of the host that ``pack_host`` packs, as Java's clients read it from a record."""
    packed = pack_host(text)
    address, port = ip_address(packed[:-_PORT_BYTES]), int.from_bytes(packed[-_PORT_BYTES:], "big")
    return f"{address if address.version == 4 else remove_port(f'[{address}]:{port}')}:{port}"
