"""Batches as columns: the same messages as one by one, or none (rules 4.6 to 4.8, 4.10)."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

import pytest

from rmqpull_broker.core.messages.columns import to_rows
from rmqpull_broker.server.remoting.handlers.batch_codec import PROPERTY_BYTES_MAX, ROWS_MIN, make_columns
from rmqpull_broker.server.remoting.handlers.codec import Origin, read_batch
from rmqpull_proto.remoting import properties as names

ORIGIN = Origin(0, 1_700_000_000_000, "127.0.0.1:5555")
HOST = "127.0.0.1:10911"


def batch(texts: Sequence[bytes], flag: int = 0) -> bytes:
    """Returns a batch whose messages have these properties."""
    parts = []
    for number, text in enumerate(texts):
        body = f"body {number}".encode()
        size = 20 + len(body) + 2 + len(text)
        parts += [struct.pack(">iiiii", size, 0, 0, flag, len(body)), body, struct.pack(">h", len(text)), text]
    return b"".join(parts)


def text_of(properties: Mapping[str, str], end: str = "") -> bytes:
    """Returns properties as a producer writes them; ``end`` is after the last value."""
    return (names.VALUE_END.join(f"{name}{names.NAME_END}{value}" for name, value in properties.items()) + end).encode()


def repeated(**properties: str) -> list[bytes]:
    """Returns the properties of a batch. A ``#`` in a value is the number of the message."""
    return [
        text_of({name: value.replace("#", str(number)) for name, value in properties.items()})
        for number in range(ROWS_MIN)
    ]


REGULAR = {
    "no properties": [b""] * ROWS_MIN,
    "one value each": repeated(WAIT="true"),
    "all columns": repeated(
        UNIQ_KEY="A#", TAGS="tag#", KEYS="k# l#", __SHARDINGKEY="g#", TRACE_CONTEXT="t#", colour="blue#", size="#"
    ),
    "names of the broker": repeated(MSG_REGION="mine", POP_CK="1", CLUSTER="c", TRACE_ON="false", x="#"),
    "properties for delays": repeated(DELAY="3", TIMER_DELAY_LEVEL="1"),
    "other alphabets": repeated(ciudad="Málaga#", 城="東京"),
    "values with an end": [text_of({"WAIT": "true", "x": "1"}, names.VALUE_END)] * ROWS_MIN,
}


@pytest.mark.parametrize("sys_flag", [0, 1, 0x301])
@pytest.mark.parametrize("case", REGULAR)
def test_columns_have_the_same_messages_as_a_batch_that_is_read_one_by_one(case: str, sys_flag: int) -> None:
    body, origin = batch(REGULAR[case]), ORIGIN._replace(sys_flag=sys_flag)
    columns = make_columns(body, origin, 2, HOST)
    assert columns is not None
    rows = to_rows([columns])
    messages = list(read_batch(memoryview(body), origin))
    assert [row.message for row in rows] == messages
    in_order = [[*row.message.properties, *row.message.system_properties] for row in rows]
    assert in_order == [[*message.properties, *message.system_properties] for message in messages]
    assert {(row.store_host, row.reconsume_times) for row in rows} == {(HOST, 2)}
    assert [row.queue_offset for row in rows] == [*range(ROWS_MIN)]


def changed(text: bytes, at: int = 3) -> list[bytes]:
    """Returns a batch in which one message has other properties."""
    texts = repeated(a="1", b="2")
    texts[at] = text
    return texts


@pytest.mark.parametrize(
    "texts",
    [
        repeated(WAIT="true")[1:],
        changed(b""),
        changed(b"", at=0),
        changed(text_of({"b": "2", "a": "1"})),
        changed(text_of({"a": "1"})),
        changed(text_of({"a": "1", "b": "2", "c": "3"})),
        changed(text_of({"a": "", "b": "2"})),
        changed(text_of({"a": "1", "": "2"})),
        changed(text_of({"a": "1", "b": "2"}, names.VALUE_END)),
        changed(text_of({"a": "1", "b": "2"}, names.VALUE_END), at=0),
        [text_of({"a": "1"}, names.VALUE_END)] * (ROWS_MIN - 1) + [text_of({"a": "value"})],
        changed(b"a\x011\x022\x01b"),
        changed(b"a\x011\x02b\x012\x02a\x011\x02b\x012"),
        changed(b"a\x01\xff\x02b\x012"),
        [b"a\x011\x02b\x012\x02a\x011", b"b\x012\x02a\x011\x02b\x012"] * (ROWS_MIN // 2),
        [b"a\x011\x02a\x012"] * ROWS_MIN,
        repeated(TIMER_DELIVER_MS="1700000000000"),
        repeated(TRAN_MSG="true"),
        repeated(x="y" * PROPERTY_BYTES_MAX),
    ],
)
def test_a_small_or_irregular_batch_has_no_columns(texts: Sequence[bytes]) -> None:
    assert make_columns(batch(texts), ORIGIN, 0, HOST) is None


@pytest.mark.parametrize(
    ("body", "sys_flag"),
    [
        (batch(repeated(a="1"), flag=7), 0),
        (batch(repeated(a="1"))[:-1], 0),
        (batch(repeated(a="1")) + b"x", 0),
        (batch(repeated(a="1")), 4),
    ],
)
def test_neither_has_a_batch_with_flags_or_wrong_lengths(body: bytes, sys_flag: int) -> None:
    assert make_columns(body, ORIGIN._replace(sys_flag=sys_flag), 0, HOST) is None
