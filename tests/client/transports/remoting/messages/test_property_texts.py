"""Properties of rows as texts (rules 4.8), compared with what a reader of each text sees."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.messages.property_texts import encode_property_texts, make_unique_keys
from rmqpull_proto.columns import PUBLISH_SCHEMA, PULLABLE_SCHEMA
from rmqpull_proto.remoting.properties import decode_properties
from tests.harness.uniq_keys import UniqKey, parse_uniq_key


def make_rows(**columns: list[Any]) -> pa.RecordBatch:
    schema = {**{field.name: field.type for field in PUBLISH_SCHEMA}, "systemProperties": PULLABLE_SCHEMA[-1].type}
    return pa.record_batch({name: pa.array(values, schema[name]) for name, values in columns.items()})


def encode(rows: pa.RecordBatch, **more: Any) -> list[dict[str, str]]:
    """Encodes rows, and reads each text again."""
    texts = encode_property_texts(rows, more)
    texts.validate(full=True)
    return [decode_properties(text) for text in texts.to_pylist()]


def test_every_column_becomes_a_property() -> None:
    rows = make_rows(
        body=[b"x"],
        tags=["red"],
        keys=[["k1", "k2"]],
        properties=[[("colour", "ü"), ("size", "L")]],
        systemProperties=[[("PGROUP", "sellers")]],
        messageGroup=["group"],
        deliveryTimestamp=[datetime.fromtimestamp(5.678, timezone.utc)],
        msgId=["0A01"],
    )
    (text,) = encode_property_texts(rows).to_pylist()
    assert text.endswith("WAIT\x01true\x02")
    assert decode_properties(text) == {
        "colour": "ü",
        "size": "L",
        "PGROUP": "sellers",
        "TAGS": "red",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "0A01",
        "__SHARDINGKEY": "group",
        "TIMER_DELIVER_MS": "5678",
        "WAIT": "true",
    }


def test_what_is_null_or_empty_is_left_out() -> None:
    rows = make_rows(
        tags=[None, "", "red"],
        keys=[None, [], ["k"]],
        properties=[None, [], [("a", ""), ("b", "x"), ("", "y"), ("c", None)]],
        deliveryTimestamp=[None, None, None],
    )
    assert encode(rows) == [{}, {}, {"TAGS": "red", "KEYS": "k", "b": "x"}]
    assert encode_property_texts(make_rows(body=[b"", b""]), {}).to_pylist() == ["", ""]
    assert encode_property_texts(make_rows(tags=[], properties=[])).to_pylist() == []


def test_more_properties_of_rocketmq() -> None:
    delays = pa.array(["3", None])
    assert encode(make_rows(tags=["a", "b"]), DELAY=delays, WAIT="false", CLUSTER="") == [
        {"TAGS": "a", "DELAY": "3", "WAIT": "false"},
        {"TAGS": "b", "WAIT": "false"},
    ]


def test_the_message_group_wins_over_a_property_of_its_name() -> None:
    rows = make_rows(properties=[[("__SHARDINGKEY", "user")]] * 2, messageGroup=["group", None])
    assert [found["__SHARDINGKEY"] for found in encode(rows)] == ["group", "user"]


TEXTS = st.text(st.characters(min_codepoint=3, codec="utf-8"), max_size=4)
MAPS = st.none() | st.lists(st.tuples(TEXTS, st.none() | TEXTS), max_size=3, unique_by=lambda entry: entry[0])


@given(rows=st.lists(st.tuples(st.none() | TEXTS, MAPS), max_size=6), start=st.integers(0, 3))
def test_rows_of_a_slice_give_what_each_gives_alone(
    rows: list[tuple[str | None, list[tuple[str, str | None]] | None]], start: int
) -> None:
    batch = make_rows(tags=[tags for tags, _ in rows], properties=[entries for _, entries in rows]).slice(start)
    assert encode(batch) == [
        {**{name: value for name, value in entries or () if name and value}, **({"TAGS": tags} if tags else {})}
        for tags, entries in rows[start:]
    ]


LETTERS = st.characters(min_codepoint=ord("a"), max_codepoint=ord("z"))


@given(
    widths=st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True),
    rows=st.lists(st.lists(st.text(LETTERS, min_size=12, max_size=12), min_size=2, max_size=2), min_size=1, max_size=4),
    has_same_names=st.booleans(),
    start=st.integers(0, 3),
)
def test_rows_with_properties_of_the_same_lengths_are_as_any_others(
    widths: list[int], rows: list[list[str]], has_same_names: bool, start: int
) -> None:
    """Names and values are pieces of two texts of each row. The second row's may be those of the first."""
    entries = [
        [
            ((rows[0] if has_same_names else row)[0][4 * at :][:width], row[1][4 * at :][:width])
            for at, width in enumerate(widths)
        ]
        for row in rows
    ]
    batch = make_rows(properties=entries, msgId=[row[1] for row in rows]).slice(start)
    own = [[f"{name}\1{value}\2" for name, value in of_row if name and value] for of_row in entries]
    expected = ["".join(texts) + f"UNIQ_KEY\1{row[1]}\2" for texts, row in zip(own, rows, strict=True)]
    assert encode_property_texts(batch, {}).to_pylist() == expected[start:]


def test_entries_of_nulls_are_left_out() -> None:
    """Arrow allows a null to have entries."""
    maps = make_rows(properties=[[("a", "b")], [("c", "d")], [("e", "f")]]).column(0)
    bitmap = pa.py_buffer(b"\x05")
    holed = pa.Array.from_buffers(
        maps.type,
        3,
        [bitmap, maps.buffers()[1]],
        children=[pa.StructArray.from_arrays([maps.keys, maps.items], ["key", "value"])],
    )
    assert encode(pa.record_batch({"properties": holed})) == [{"a": "b"}, {}, {"e": "f"}]


def test_unique_keys_count_up() -> None:
    """Rules 4.9: the counter has 16 bits; when it overflows, the milliseconds increase."""
    process = bytes([10, 0, 0, 1]) + b"\x12\x34" + b"\x00\x00\xab\xcd"
    found = make_unique_keys(process, (99 << 16) + 0xFFFE, 3).to_pylist()
    assert [parse_uniq_key(each) for each in found] == [
        UniqKey("10.0.0.1", 0x1234, 0xABCD, 99, 0xFFFE),
        UniqKey("10.0.0.1", 0x1234, 0xABCD, 99, 0xFFFF),
        UniqKey("10.0.0.1", 0x1234, 0xABCD, 100, 0),
    ]
    assert found[0] == found[0].upper()
    assert make_unique_keys(process, 0, 0).to_pylist() == []


@pytest.mark.parametrize("address", [bytes(4), bytes(16)])
def test_unique_keys_have_the_length_of_their_address(address: bytes) -> None:
    (found,) = make_unique_keys(address + bytes(6), 1, 1).to_pylist()
    assert len(found) == 2 * (len(address) + 12)
