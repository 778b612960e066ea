"""The bytes of single messages."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage
from rmqpull_broker.store.rows import decode_rows, encode_rows


@given(st.lists(st.from_type(StoredMessage), max_size=5))
def test_rows_come_back_as_they_were(rows: list[StoredMessage]) -> None:
    assert list(decode_rows(memoryview(encode_rows(rows)))) == rows


def sized(data: bytes) -> bytes:
    return struct.pack("<i", len(data)) + data


NULL = struct.pack("<i", -1)


def test_the_layout_is_as_drawn() -> None:
    message = Message(
        b"body",
        "ID",
        "red",
        ("k1", "k2"),
        {"p": "v"},
        None,
        None,
        5,
        "born",
        BodyEncoding.GZIP,
        "trace",
        system_properties={"DELAY": "3"},
    )
    assert encode_rows([StoredMessage(message, 7, 6, "store", 2)]) == (
        struct.pack("<qqqqii", 7, 6, 5, -(1 << 63), 2, 2)
        + (sized(b"ID") + sized(b"red") + NULL + sized(b"trace") + sized(b"born") + sized(b"store") + sized(b"body"))
        + (struct.pack("<i", 2) + sized(b"k1") + sized(b"k2"))
        + (struct.pack("<i", 1) + sized(b"p") + sized(b"v"))
        + (struct.pack("<i", 1) + sized(b"DELAY") + sized(b"3"))
    )


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_text_is_told_from_none(text: str | None) -> None:
    row = StoredMessage(Message(b"x", "ID", tags=text, message_group=text, trace_context=text), 0, 0, "")
    assert list(decode_rows(memoryview(encode_rows([row])))) == [row]
