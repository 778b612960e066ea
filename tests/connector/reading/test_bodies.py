"""Packed bodies are unpacked, whoever packed them."""

from __future__ import annotations

import gzip
import logging
import zlib
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.reading import bodies
from pyspark_rmqpull.reading.bodies import BodyUnpacker, unpack
from rmqpull_client.errors import BodyDamaged
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
def test_what_was_packed_is_unpacked(packer: str, body: bytes) -> None:
    assert unpack(PACKERS[packer](body)) == body


@pytest.mark.parametrize("packer", PACKERS)
def test_what_is_not_whole_is_refused(packer: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(PACKERS[packer](TEXT)[:-5])


@pytest.mark.parametrize("body", [b"", b"x", b"plain text"])
def test_what_is_not_packed_is_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        unpack(body)


@pytest.mark.parametrize("packer", PACKERS)
def test_what_would_fill_the_memory_is_refused(packer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BODY_BYTES_MAX", len(TEXT) - 1)
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


def test_only_what_is_marked_is_unpacked() -> None:
    looks_packed = gzip.compress(TEXT)
    batch = pulled((looks_packed, "IDENTITY"), (looks_packed, "GZIP"))
    assert BodyUnpacker("unpacked").bodies(QUEUE, batch).to_pylist() == [looks_packed, TEXT]
    assert BodyUnpacker("unpacked").bodies(QUEUE, PACKED).to_pylist() == [TEXT] * 3


def test_raw_bodies_stay_as_they_were_sent() -> None:
    assert BodyUnpacker("raw").bodies(QUEUE, PACKED).equals(PACKED.column("body"))
    assert BodyUnpacker("raw").needed_columns == ()


def test_a_damaged_body_is_named() -> None:
    with pytest.raises(BodyDamaged, match=r"at offset 8 of queue orders/broker-a/3 .* option bodies to rawIfDamaged"):
        BodyUnpacker("unpacked").bodies(QUEUE, DAMAGED)


def test_a_damaged_body_stays_as_it_is_and_is_counted(caplog: pytest.LogCaptureFixture) -> None:
    unpacker = BodyUnpacker("rawIfDamaged")
    with caplog.at_level(logging.WARNING):
        assert unpacker.bodies(QUEUE, DAMAGED).to_pylist() == [TEXT, b"damaged"]
    assert unpacker.damaged_count == 1
    assert "offset 8 of queue orders/broker-a/3" in caplog.text
