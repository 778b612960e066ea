"""Encodes rows as stored messages, the reverse of ``stored_columns`` (rules 4.7)."""

from __future__ import annotations

import struct
import zlib
from ipaddress import ip_address
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto import columns as wire
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.messages import record_layout as layout
from rmqpull_proto.remoting.messages.batch_messages import (
    EncodedMessages,
    check_property_sizes,
    count_bytes,
    join_parts,
)
from rmqpull_proto.remoting.messages.byte_ranges import make_fixed
from rmqpull_proto.remoting.messages.property_texts import encode_property_texts
from rmqpull_proto.remoting.messages.record_layout import Ints, Mask
from rmqpull_proto.remoting.messages.stored_columns import format_address

_BEFORE_HOSTS = np.dtype(
    [
        ("size", ">i4"), ("magic", ">u4"), ("crc", ">u4"), ("queue", ">i4"), ("flag", ">i4"), ("queueOffset", ">i8"),
        ("physicalOffset", ">i8"), ("sysFlag", ">i4"), ("bornTimestamp", ">i8"),
    ]
)  # fmt: skip
_AFTER_HOSTS = np.dtype([("reconsumeTimes", ">i4"), ("preparedOffset", ">i8"), ("body", ">i4")])
_PORT = struct.Struct(">i")
_NO_HOST = bytes(layout.IPV4_HOST_BYTES)
_US_PER_MS = 1000


def encode_records(rows: pa.RecordBatch, topic: str, queue_id: int, physical_offsets: Ints) -> EncodedMessages:
    """Encodes one stored message per row.

    ``rows`` has the columns ``queueOffset`` and ``body``, and any others of ``PULLABLE_SCHEMA``; what is missing is
    zero or left out. Decoding gives the same rows again: a born host that is no address becomes a property, as with
    Apache's proxy, and so does each id. Raises WireError for a store host that is no address with a port, and for
    properties of more than 32,767 bytes.
    """
    count = rows.num_rows
    bodies = rows.column("body")
    born_hosts, store_hosts = _pack_hosts(rows, "bornHost"), _pack_hosts(rows, "storeHost")
    texts = encode_property_texts(rows, {names.BORN_HOST: born_hosts.unread})
    body_bytes, property_bytes = count_bytes(bodies), count_bytes(texts)
    check_property_sizes(property_bytes)
    topic_part = _encode_topic(topic)
    head = np.zeros(count, _BEFORE_HOSTS)
    head["size"] = (
        layout.RECORD_BYTES_MIN - 1 + len(topic_part) + body_bytes + property_bytes
        + layout.IPV6_MORE_BYTES * (born_hosts.is_ipv6.astype(np.int64) + store_hosts.is_ipv6)
    )  # fmt: skip
    head["magic"] = layout.MAGIC if len(topic.encode()) <= layout.SHORT_TOPIC_BYTES else layout.LONG_TOPIC_MAGIC
    head["crc"] = [zlib.crc32(body or b"") & 0x7FFFFFFF for body in bodies.to_pylist()]
    head["queue"] = queue_id
    head["queueOffset"] = _read_numbers(rows, "queueOffset")
    head["physicalOffset"] = physical_offsets
    head["sysFlag"] = (
        _make_compression_flags(rows)
        | born_hosts.is_ipv6 * layout.BORN_HOST_IPV6
        | store_hosts.is_ipv6 * layout.STORE_HOST_IPV6
    )
    head["bornTimestamp"] = _read_numbers(rows, "bornTimestamp") // _US_PER_MS
    stored = (_read_numbers(rows, "storeTimestamp") // _US_PER_MS).astype(">i8")
    tail = np.zeros(count, _AFTER_HOSTS)
    tail["reconsumeTimes"] = _read_numbers(rows, "reconsumeTimes")
    tail["body"] = body_bytes
    return join_parts(
        make_fixed(head), born_hosts.packed, make_fixed(stored), store_hosts.packed, make_fixed(tail), bodies,
        topic_part, make_fixed(property_bytes.astype(">u2")), texts.cast(pa.binary()),
    )  # fmt: skip


class _Hosts(NamedTuple):
    packed: pa.Array
    """Address and port of each row."""
    is_ipv6: Mask
    unread: pa.Array
    """The text of each row that reading ``packed`` would not give; else null."""


def _pack_hosts(rows: pa.RecordBatch, column: str) -> _Hosts:
    """Packs hosts. Reads each host once: there are few."""
    if column not in rows.schema.names:
        packed = pa.array([_NO_HOST] * rows.num_rows, pa.binary())
        return _Hosts(packed, np.zeros(rows.num_rows, np.bool_), pa.nulls(rows.num_rows, pa.string()))
    encoded = pc.dictionary_encode(pc.fill_null(rows.column(column), ""))
    texts = encoded.dictionary.to_pylist()
    hosts = [_pack_host(text) for text in texts]
    if column == "storeHost" and None in hosts:
        raise WireError(f"store host {texts[hosts.index(None)]!r} is no address with a port")
    packed = [host or _NO_HOST for host in hosts]
    unread = [text if text and format_address(host) != text else None for text, host in zip(texts, packed, strict=True)]
    is_ipv6 = np.array([len(host) == layout.IPV6_HOST_BYTES for host in packed], np.bool_)
    indices = encoded.indices
    return _Hosts(
        pa.array(packed, pa.binary()).take(indices),
        is_ipv6[indices.to_numpy()] if texts else np.zeros(0, np.bool_),
        pa.array(unread, pa.string()).take(indices),
    )


def _pack_host(text: str) -> bytes | None:
    """Returns an address with or without a port, as bytes; None for another text."""
    address, _, port = text.rpartition(":")
    for host, its_port in ((text, "0"), (address, port)):
        try:
            return ip_address(host).packed + _PORT.pack(int(its_port))
        except (ValueError, struct.error):
            continue
    return None


def _encode_topic(topic: str) -> bytes:
    encoded = topic.encode()
    if len(encoded) <= layout.SHORT_TOPIC_BYTES:
        return bytes([len(encoded)]) + encoded
    return struct.pack(">H", len(encoded)) + encoded


def _make_compression_flags(rows: pa.RecordBatch) -> npt.NDArray[np.int64]:
    encodings = _read_numbers(rows, "bodyEncoding")
    flags = np.where(encodings == wire.BODY_ENCODINGS["GZIP"], layout.COMPRESSED, encodings)
    return np.where(encodings <= wire.BODY_ENCODINGS["IDENTITY"], 0, flags)


def _read_numbers(rows: pa.RecordBatch, column: str) -> Any:
    """Returns a column as int64, with zeros for nulls and for a missing column."""
    if column not in rows.schema.names:
        return np.zeros(rows.num_rows, np.int64)
    return pc.fill_null(rows.column(column).cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
