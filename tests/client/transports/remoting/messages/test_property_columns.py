"""Properties of many messages as columns (rules 4.8), compared with reading each message's alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.messages.property_columns import WITH_COLUMN, PropertyTable
from rmqpull_proto.remoting.properties import OWN, decode_properties

ALIKE = "TAGS\x01red\x02UNIQ_KEY\x010A01\x02colour\x01blue\x02"


def split(*texts: str | bytes) -> PropertyTable:
    """Splits the properties of messages that have other bytes between them."""
    data, starts, ends = b"", [], []
    for text in texts:
        data += b"\x02between\x01"
        starts.append(len(data))
        data += text if isinstance(text, bytes) else text.encode()
        ends.append(len(data))
    return PropertyTable(np.frombuffer(data, np.uint8), np.array(starts, np.int64), np.array(ends, np.int64))


def to_dicts(maps: pa.Array) -> list[dict[str, str]]:
    """Returns maps as dictionaries, after a check that no name is in one twice."""
    maps.validate(full=True)
    assert all(len(dict(entries)) == len(entries) for entries in maps.to_pylist())
    return [dict(entries) for entries in maps.to_pylist()]


def test_messages_with_the_same_properties() -> None:
    table = split(ALIKE, ALIKE.replace("red", "yellow").replace("blue", "ü"), ALIKE)
    assert table.make_texts("TAGS").to_pylist() == ["red", "yellow", "red"]
    assert table.make_texts("KEYS").to_pylist() == [None, None, None]
    assert to_dicts(table.make_user_maps()) == [{"colour": "blue"}, {"colour": "ü"}, {"colour": "blue"}]
    assert to_dicts(table.make_system_maps()) == [{}, {}, {}]


def test_messages_with_different_properties() -> None:
    table = split("", ALIKE, "WAIT\x01true\x02colour\x01blue\x02", "")
    assert table.make_texts("TAGS").to_pylist() == [None, "red", None, None]
    assert to_dicts(table.make_user_maps()) == [{}, {"colour": "blue"}, {"colour": "blue"}, {}]
    assert to_dicts(table.make_system_maps()) == [{}, {}, {"WAIT": "true"}, {}]


def test_messages_of_a_batch_have_names_twice_and_the_last_ones_count() -> None:
    written = "city\x01Riga\x02UNIQ_KEY\x01{}A\x02WAIT\x01true\x02UNIQ_KEY\x01{}B\x02CLUSTER\x01c\x02WAIT\x01false\x02"
    table = split(*(written.format(number, number) for number in range(3)))
    assert table.make_texts("UNIQ_KEY").to_pylist() == ["0B", "1B", "2B"]
    assert to_dicts(table.make_user_maps()) == [{"city": "Riga"}] * 3
    assert table.make_system_maps().to_pylist() == [[("CLUSTER", "c"), ("WAIT", "false")]] * 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\x01b", {"a": "b"}),  # the end of the last value is missing
        ("a\x01b\x02c\x01d", {"a": "b", "c": "d"}),
        ("\x01b\x02c\x01d\x02", {"c": "d"}),  # no name
        ("a\x01\x02c\x01d\x02", {"c": "d"}),  # no value
        ("a\x02c\x01d\x02", {"c": "d"}),  # no end of the name
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x01b\x02\x02\x02c\x01d\x02", {"a": "b", "c": "d"}),
        ("a\x01first\x02b\x01x\x02a\x01last\x02", {"a": "last", "b": "x"}),
        ("a\x01first\x02a\x01\x02", {"a": "first"}),
        ("a\x01\0\x02", {"a": "\0"}),
        ("\x02", {}),
        ("\x01", {}),
        ("a", {}),
        ("", {}),
    ],
)
@pytest.mark.parametrize("others", [[], ["a\x01z\x02"], ["k\x01v\x02"] * 3])
def test_what_a_reader_sees_of_a_text(text: str, expected: dict[str, str], others: list[str]) -> None:
    found = to_dicts(split(*others, text, *others).make_user_maps())
    assert found[len(others)] == expected
    assert found[: len(others)] == [decode_properties(each) for each in others]


MALFORMED = {
    b"\xff": "\ufffd",
    b"ok\xc3": "ok\ufffd",
    b"\xe4\xb8": "\ufffd",  # the start of a character
    b"\xe4\xb8x": "\ufffdx",
    b"\xed\xa0\x80x": "\ufffdx",  # a surrogate
    b"\xc0\xaf": "\ufffd\ufffd",  # too many bytes for a character
    b"\xf0\x9f\x98\x80": "\N{GRINNING FACE}",
}


@pytest.mark.parametrize("value", MALFORMED)
def test_malformed_utf8_is_replaced(value: bytes) -> None:
    table = split(ALIKE, b"a\x01" + value + b"\x02TAGS\x01red\x02", ALIKE)
    assert to_dicts(table.make_user_maps()) == [{"colour": "blue"}, {"a": MALFORMED[value]}, {"colour": "blue"}]
    assert table.make_texts("TAGS").to_pylist() == ["red"] * 3


def test_many_different_names_each_once_and_twice() -> None:
    """More names than bits of a number: then doubles are found in another way."""
    once = "".join(f"name-{number}\x01{number}\x02" for number in range(200))
    table = split(once, once + "name-7\x01again\x02")
    first, second = to_dicts(table.make_user_maps())
    assert first == decode_properties(once)
    assert second == {**first, "name-7": "again"}


NAMES = st.sampled_from(sorted(OWN)) | st.text("aTAGS", max_size=5)
TEXTS = st.text(st.sampled_from("\x01\x02\0aü "), max_size=8)
PROPERTIES = st.lists(st.tuples(NAMES, TEXTS), max_size=4).map(
    lambda entries: "".join(f"{name}\x01{value}\x02" for name, value in entries)
)


@given(texts=st.lists(PROPERTIES | TEXTS, max_size=6), copies=st.sampled_from((1, 3)))
@example(texts=["\x01\x02"], copies=2)
def test_all_messages_together_give_what_each_gives_alone(texts: list[str], copies: int) -> None:
    table = split(*texts * copies)
    expected = [decode_properties(text) for text in texts * copies]
    assert to_dicts(table.make_user_maps()) == [
        {name: value for name, value in each.items() if name not in OWN} for each in expected
    ]
    assert to_dicts(table.make_system_maps()) == [
        {name: value for name, value in each.items() if name in OWN - WITH_COLUMN} for each in expected
    ]
    for name in ("TAGS", "WAIT", "a"):
        column = table.make_texts(name)
        column.validate(full=True)
        assert column.to_pylist() == [each.get(name) for each in expected]
