"""Inner batches: stored messages that are unwrapped into several (rules 4.7, 4.10)."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.messages import inner_batches
from rmqpull_client.transports.remoting.messages.batch_messages import encode_batch
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import RecordTable, locate_records
from tests.harness.stored_records import StoredRecord, join_bodies

INNER = 0xC0


def wrap(*bodies: bytes, offset: int = 0, sys_flag: int = INNER, **fields: object) -> StoredRecord:
    """Makes a stored message of several messages, whose tags are t0, t1 and so on."""
    texts = pa.array([f"TAGS\x01t{number}\x02" for number in range(len(bodies))])
    content = bytes(encode_batch(pa.array(bodies, pa.binary()), texts).data)
    return StoredRecord(body=content, queue_offset=offset, sys_flag=sys_flag, **fields)  # type: ignore[arg-type]


def locate(*bodies: list[StoredRecord], first_offsets: list[int] | None = None) -> RecordTable:
    data, starts, ends = join_bodies([[each.encode() for each in body] for body in bodies])
    return locate_records(data, starts, ends, None if first_offsets is None else np.array(first_offsets))


def test_messages_of_an_inner_batch_stand_between_the_others() -> None:
    table = locate(
        [StoredRecord(queue_offset=3), wrap(b"a", b"", b"c", offset=4), StoredRecord(queue_offset=7)],
        [StoredRecord(queue_offset=1)],
    )
    rows = decode_columns(table, ["queueOffset", "body", "tags"]).to_pylist()
    assert [(row["queueOffset"], row["body"], row["tags"]) for row in rows] == [
        (3, b"body", None),
        (4, b"a", "t0"),
        (5, b"", "t1"),
        (6, b"c", "t2"),
        (7, b"body", None),
        (1, b"body", None),
    ]
    assert table.body_indexes.tolist() == [0, 0, 0, 0, 0, 1]
    assert table.damaged == ()


def test_messages_before_the_pulled_offset_are_left_out() -> None:
    table = locate([wrap(b"a", b"b", b"c", offset=4)], [wrap(b"a", b"b", offset=4)], first_offsets=[5, 0])
    assert table.queue_offsets.tolist() == [5, 6, 4, 5]


@pytest.mark.parametrize("host", [("10.1.2.3", 5), ("2001:db8::1", 5)])
@pytest.mark.parametrize("topic", ["orders", "t" * 200])
def test_messages_have_the_times_and_hosts_of_their_batch(host: tuple[str, int], topic: str) -> None:
    outer = wrap(b"a", topic=topic, born_host=host, store_host=host)
    (row,) = decode_columns(locate([outer])).to_pylist()
    (expected,) = decode_columns(locate([StoredRecord(b"a", topic, born_host=host, store_host=host)])).to_pylist()
    assert row == expected | {"tags": "t0"}


@pytest.mark.parametrize("sys_flag", [0x40, 0x80])
def test_one_flag_alone_unwraps_nothing(sys_flag: int) -> None:
    outer = wrap(b"a", b"b", sys_flag=sys_flag)
    assert decode_columns(locate([outer])).column("body").to_pylist() == [outer.body]


CODECS: dict[int, Callable[[bytes], bytes]] = {
    0x000: zlib.compress,
    0x100: lambda data: pa.compress(data, "lz4", asbytes=True),
    0x200: lambda data: pa.compress(data, "zstd", asbytes=True),
    0x300: zlib.compress,
}


def compress(outer: StoredRecord, compression_type: int) -> StoredRecord:
    return StoredRecord(CODECS[compression_type](outer.body), sys_flag=INNER | 1 | compression_type)


@pytest.mark.parametrize("compression_type", CODECS)
def test_a_compressed_batch_is_decompressed(compression_type: int) -> None:
    rows = decode_columns(locate([compress(wrap(b"a" * 50, b"b"), compression_type)])).to_pylist()
    assert [(row["body"], row["bodyEncoding"]) for row in rows] == [(b"a" * 50, 1), (b"b", 1)]


@pytest.mark.parametrize("compression_type", CODECS)
@pytest.mark.parametrize("kept", [0, 12])
def test_a_broken_compression_is_a_damaged_record(compression_type: int, kept: int) -> None:
    whole = compress(wrap(b"a" * 50, b"b"), compression_type)
    broken = StoredRecord(whole.body[:kept], sys_flag=whole.sys_flag, queue_offset=9)
    table = locate([StoredRecord(queue_offset=8), broken, StoredRecord(queue_offset=10)])
    assert table.queue_offsets.tolist()[:1] == [8]
    (damaged,) = table.damaged if table.damaged else (None,)
    assert damaged is None or (damaged.queue_offset, damaged.body_index) == (9, 0)
    assert damaged is not None or kept == 0  # no bytes are an empty batch for some codecs


@pytest.mark.parametrize("compression_type", CODECS)
def test_an_inner_batch_that_is_too_large_is_a_damaged_record(
    compression_type: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inner_batches, "UNPACKED_BYTES_MAX", 1000)
    (damaged,) = locate([compress(wrap(b"a" * 1000), compression_type)]).damaged
    assert damaged.reason == "its inner batch has more than 1000 bytes"


@pytest.mark.parametrize(
    ("at", "new", "reason"),
    [
        (3, b"\xff", "the lengths in its inner batch do not add up to 255 bytes, at byte 31"),
        (21, b"\x7f\xff", "the lengths in its inner batch do not add up"),
        (23, b"", "its inner batch ends in the middle of a message, at byte 31"),
        (16, b"\xff\xff\xff\xff", "the lengths in its inner batch do not add up"),
    ],
)
def test_messages_before_a_damaged_inner_message_are_usable(at: int, new: bytes, reason: str) -> None:
    good, bad = wrap(b"a"), bytearray(wrap(b"b").body)
    bad[at : at + len(new)] = new
    if not new:
        del bad[at - 1 :]
    outer = StoredRecord(good.body + bytes(bad), sys_flag=INNER, queue_offset=4)
    table = locate([outer, StoredRecord(queue_offset=6)], [StoredRecord(queue_offset=1)])
    assert table.queue_offsets.tolist() == [4, 1]
    (damaged,) = table.damaged
    assert damaged.queue_offset == 4
    assert reason in damaged.reason


@given(content=st.binary(max_size=100), compression=st.sampled_from((0, 0x1, 0x101, 0x201, 0x301, 0x701)))
def test_any_bytes_lead_to_rows_or_a_damaged_record(content: bytes, compression: int) -> None:
    table = locate([StoredRecord(content, sys_flag=INNER | compression), StoredRecord()])
    decode_columns(table).validate(full=True)
    assert len(table) or table.damaged
