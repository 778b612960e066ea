"""Bodies that a producer has compressed are decompressed."""

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
from pyspark_rmqpull.reading.row_columns import BodyDecompressor, decompress
from rmqpull_client.model import MessageQueue
from rmqpull_proto.columns import BODY_ENCODINGS

QUEUE = MessageQueue("orders", "broker-a", 3)
TEXT = b"hello " * 100


def by_arrow(body: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "zlib": zlib.compress,
    "lz4": lambda body: by_arrow(body, "lz4"),
    "zstd": lambda body: by_arrow(body, "zstd"),
}


@pytest.mark.parametrize("compressor", COMPRESSORS)
@given(body=st.binary())
def test_decompressing_returns_the_original_body(compressor: str, body: bytes) -> None:
    assert decompress(COMPRESSORS[compressor](body)) == body


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_an_incomplete_body_is_refused(compressor: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decompress(COMPRESSORS[compressor](TEXT)[:-5])


@pytest.mark.parametrize("body", [b"", b"x", b"plain text"])
def test_a_body_that_is_not_compressed_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decompress(body)


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_a_body_that_would_fill_the_memory_is_refused(compressor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_columns, "DECOMPRESSED_BYTES_MAX", len(TEXT) - 1)
    with pytest.raises(ValueError, match="more than 599 bytes when decompressed"):
        decompress(COMPRESSORS[compressor](TEXT))


def pulled(*rows: tuple[bytes, str]) -> pa.RecordBatch:
    return pa.record_batch(
        {
            "queueOffset": pa.array(range(7, 7 + len(rows)), pa.int64()),
            "body": pa.array([body for body, _ in rows], pa.binary()),
            "bodyEncoding": pa.array([BODY_ENCODINGS[encoding] for _, encoding in rows], pa.int32()),
        }
    )


COMPRESSED = pulled((TEXT, "IDENTITY"), (zlib.compress(TEXT), "ZLIB"), (gzip.compress(TEXT), "GZIP"))
DAMAGED = pulled((TEXT, "IDENTITY"), (b"damaged", "ZLIB"))


def test_only_bodies_with_an_encoding_are_decompressed() -> None:
    looks_compressed = gzip.compress(TEXT)
    batch = pulled((looks_compressed, "IDENTITY"), (looks_compressed, "GZIP"))
    assert BodyDecompressor("unpacked").decompress_bodies(QUEUE, batch).to_pylist() == [looks_compressed, TEXT]
    assert BodyDecompressor("unpacked").decompress_bodies(QUEUE, COMPRESSED).to_pylist() == [TEXT] * 3


def test_raw_bodies_stay_as_they_were_sent() -> None:
    assert BodyDecompressor("raw").decompress_bodies(QUEUE, COMPRESSED).equals(COMPRESSED.column("body"))
    assert BodyDecompressor("raw").needed_columns == ()


def test_the_error_names_a_damaged_body() -> None:
    with pytest.raises(
        BodyDamaged,
        match=r"at offset 8 of queue orders/broker-a/3: .* set option bodies to rawIfDamaged",
    ):
        BodyDecompressor("unpacked").decompress_bodies(QUEUE, DAMAGED)


def test_a_damaged_body_may_stay_as_it_was_sent_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    decompressor = BodyDecompressor("rawIfDamaged")
    with caplog.at_level(logging.WARNING):
        assert decompressor.decompress_bodies(QUEUE, DAMAGED).to_pylist() == [TEXT, b"damaged"]
    assert decompressor.damaged_count == 1
    assert "offset 8 of queue orders/broker-a/3" in caplog.text
