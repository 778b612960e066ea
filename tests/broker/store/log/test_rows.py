"""The bytes of single messages."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import BodyEncoding, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import RowsStored
from rmqpull_broker.store.log.rows import LoggedRows, decode_columns, decode_rows, encode_rows

QUEUE = MessageQueue("orders", "broker-a", 0)


@given(st.lists(st.from_type(StoredMessage), max_size=5))
def test_rows_come_back_as_they_were(rows: list[StoredMessage]) -> None:
    assert decode_rows(encode_rows(rows)) == rows


@given(st.lists(st.lists(st.from_type(StoredMessage), max_size=3), min_size=1, max_size=3))
def test_rows_become_the_same_columns_with_and_without_objects(writes: list[list[StoredMessage]]) -> None:
    rows = [row for write in writes for row in write]
    if rows:
        assert decode_columns(map(encode_rows, writes)) == columns.from_rows(rows)


def test_sends_that_are_replayed_together_are_as_new_as_the_last() -> None:
    rows = [StoredMessage(Message(b"x", "ID"), offset, 1_000 + offset, "") for offset in range(3)]
    logged = LoggedRows(QUEUE, *(encode_rows([row]) for row in rows))
    assert (logged.row_count, logged.first_offset, logged.store_timestamp_ms) == (3, 0, 1_002)
    assert logged.rows == tuple(rows)


@given(st.lists(st.from_type(StoredMessage), min_size=1, max_size=3))
def test_logged_rows_tell_what_is_asked_most_without_being_decoded(rows: list[StoredMessage]) -> None:
    logged = LoggedRows(QUEUE, encode_rows(rows))
    first = rows[0]
    assert (logged.row_count, logged.first_offset) == (len(rows), first.queue_offset)
    assert logged.store_timestamp_ms == first.store_timestamp_ms
    assert "rows" not in vars(logged)
    assert logged == RowsStored(QUEUE, tuple(rows)) == logged
    assert logged != RowsStored(QUEUE, (*rows, first))


def sized(data: bytes) -> bytes:
    return struct.pack("<i", len(data)) + data


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
        struct.pack("<q", 1)
        + struct.pack("<qqqqii", 7, 6, 5, -(1 << 63), 2, 2)
        + struct.pack("<7i", 2, 3, -1, 5, 4, 5, 4)
        + struct.pack("<3i", 2, 1, 1)
        + b"IDredtracebornstorebody"
        + (sized(b"k1") + sized(b"k2") + sized(b"p") + sized(b"v") + sized(b"DELAY") + sized(b"3"))
    )


@pytest.mark.parametrize("text", ["", None])
def test_an_empty_text_differs_from_none(text: str | None) -> None:
    row = StoredMessage(Message(b"x", "ID", tags=text, message_group=text, trace_context=text), 0, 0, "")
    assert decode_rows(encode_rows([row])) == [row]
