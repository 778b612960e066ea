"""Messages of batches (rules 4.10)."""

from __future__ import annotations

import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.messages.batch_messages import MESSAGE_BYTES, encode_batch
from rmqpull_proto.remoting.frames import WireError


def encode_one(body: bytes, properties: bytes) -> bytes:
    """Encodes one message, field by field."""
    size = MESSAGE_BYTES + len(body) + len(properties)
    return struct.pack(">5i", size, 0, 0, 0, len(body)) + body + struct.pack(">h", len(properties)) + properties


TEXTS = st.text("aü\x01\x02", max_size=20)
MESSAGES = st.lists(st.tuples(st.binary(max_size=20), TEXTS), max_size=6)
EVEN = st.tuples(st.integers(0, 20), TEXTS).flatmap(
    lambda drawn: st.lists(st.tuples(st.binary(min_size=drawn[0], max_size=drawn[0]), st.just(drawn[1])), max_size=6)
)
"""Messages with bodies and properties of the same lengths."""


@given(messages=MESSAGES | EVEN, start=st.integers(0, 6), stop=st.integers(0, 6))
def test_any_consecutive_messages_are_a_batch(messages: list[tuple[bytes, str]], start: int, stop: int) -> None:
    bodies = pa.array([body for body, _ in messages], pa.binary())
    encoded = encode_batch(bodies, pa.array([text for _, text in messages], pa.string()))
    start, stop = min(start, len(messages)), min(stop, len(messages))
    expected = b"".join(encode_one(body, text.encode()) for body, text in messages[start:stop])
    assert encoded.get_batch(start, max(start, stop)) == expected
    assert encoded.bounds[-1] == len(encoded.data)


def test_a_null_body_is_empty() -> None:
    assert encode_batch(pa.array([None], pa.binary()), pa.array([""])).data == encode_one(b"", b"")


def test_properties_that_a_broker_could_not_read_are_refused() -> None:
    texts = pa.array(["a", "b" * 32_767])
    assert len(encode_batch(pa.array([b"", b""]), texts).data) == 2 * MESSAGE_BYTES + 32_768
    with pytest.raises(WireError, match="properties of row 1 have 32768 bytes, expected at most 32767"):
        encode_batch(pa.array([b"", b""]), pa.array(["a", "b" * 32_768]))
