"""Bodies that a producer has compressed are unpacked."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.errors import BodyDamaged
from pyspark_rmqpull.reading import row_columns
from pyspark_rmqpull.reading.row_columns import BodyUnpacker, unpack
from rmqpull_client.model import MessageQueue
from rmqpull_proto.columns import BODY_ENCODINGS

QUEUE = MessageQueue("orders", "broker-a", 3)
TEXT = b"hello " * 100


def by_arrow(body: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "lz4": lambda body: by_arrow(body, "lz4"),
    "zstd": lambda body: by_arrow(body, "zstd"),
}


@pytest.mark.parametrize("packer", PACKERS)
@given(body=st.binary())
def test_unpacking_returns_what_was_packed(packer: str, body: bytes) -> None:
    assert unpack(PACKERS[packer](body)) == body


@pytest.mark.parametrize("packer", PACKERS)
def test_an_incomplete_body_is_refused(packer: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(PACKERS[packer](TEXT)[:-5])


@pytest.mark.parametrize("body", [b"", b"x", b"plain text"])
def test_a_body_that_is_not_packed_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(body)


@pytest.mark.parametrize("packer", PACKERS)
def test_a_body_that_would_fill_the_memory_is_refused(packer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_columns, "UNPACKED_BYTES_MAX", len(TEXT) - 1)
    with pytest.raises(ValueError, match="more than 599 bytes when unpacked"):
        unpack(PACKERS[packer](TEXT))


def pulled(*rows: tuple[bytes, str]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "queueOffset": pa.array(range(7, 7 + len(rows)), pa.int64()),
            "body": pa.array([body for body, _ in rows], pa.binary()),
            "bodyEncoding": pa.array([BODY_ENCODINGS[encoding] for _, encoding in rows], pa.int32()),
        }
    )


PACKED = pulled((TEXT, "IDENTITY"), (zlib.compress(TEXT), "ZLIB"), (gzip.compress(TEXT), "GZIP"))
DAMAGED = pulled((TEXT, "IDENTITY"), (b"damaged", "ZLIB"))


def test_only_bodies_with_an_encoding_are_unpacked() -> None:
    looks_packed = gzip.compress(TEXT)
    batch = pulled((looks_packed, "IDENTITY"), (looks_packed, "GZIP"))
    assert BodyUnpacker("unpacked").unpack_bodies(QUEUE, batch).to_pylist() == [looks_packed, TEXT]
    assert BodyUnpacker("unpacked").unpack_bodies(QUEUE, PACKED).to_pylist() == [TEXT] * 3


def test_raw_bodies_stay_as_they_were_sent() -> None:
    assert BodyUnpacker("raw").unpack_bodies(QUEUE, PACKED).equals(PACKED.column("body"))
    assert BodyUnpacker("raw").needed_columns == ()


def test_the_error_names_a_damaged_body() -> None:
    with pytest.raises(
        BodyDamaged,
        match=r"at offset 8 of queue orders/broker-a/3: .* set option bodies to rawIfDamaged",
    ):
        BodyUnpacker("unpacked").unpack_bodies(QUEUE, DAMAGED)


def test_a_damaged_body_may_stay_as_it_was_sent_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    unpacker = BodyUnpacker("rawIfDamaged")
    with caplog.at_level(logging.WARNING):
        assert unpacker.unpack_bodies(QUEUE, DAMAGED).to_pylist() == [TEXT, b"damaged"]
    assert unpacker.damaged_count == 1
    assert "offset 8 of queue orders/broker-a/3" in caplog.text
