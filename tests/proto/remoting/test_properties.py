"""Properties as one text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.properties import OWN_BUT_NOT_RESERVED, RESERVED, decode_properties, encode_properties

TEXTS = st.text(st.characters(exclude_characters="\x01\x02"), min_size=1, max_size=6)


def test_the_text_of_two_properties() -> None:
    assert encode_properties({"TAGS": "A", "k": "v"}) == "TAGS\x01A\x02k\x01v\x02"


@given(st.dictionaries(TEXTS, TEXTS, max_size=5))
def test_properties_survive(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties)) == properties


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("", {}),
        ("a\x01b", {"a": "b"}),
        ("a\x01b\x02c\x01d\x02", {"a": "b", "c": "d"}),
        ("\x02\x02a\x01b\x02\x02", {"a": "b"}),
        ("a\x01\x02b\x02\x01c\x02d\x01e", {"d": "e"}),
        ("a\x01b\x01c\x02", {"a": "b\x01c"}),
        ("a\x01b\x02a\x01c\x02", {"a": "c"}),
    ],
)
def test_what_is_read(text: str, properties: dict[str, str]) -> None:
    assert decode_properties(text) == properties


def test_empty_names_and_values_are_not_written() -> None:
    assert encode_properties({"": "a", "b": "", "c": "d"}) == "c\x01d\x02"


@pytest.mark.parametrize(
    "properties", [{"a": "b", "c\x01": "d"}, {"a": "b", "c": "\x02d"}, {"a": "b", "c\x02": "d"}, {"c": "d\x01"}]
)
def test_separators_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(WireError, match=r"property 'c.* contains character 1 or 2"):
        encode_properties(properties)


def test_names_of_rocketmq() -> None:
    assert {"TAGS", "KEYS", "UNIQ_KEY"} <= RESERVED
    assert {"TRACE_CONTEXT", "__SHARDINGKEY"} <= OWN_BUT_NOT_RESERVED
    assert not OWN_BUT_NOT_RESERVED & RESERVED
