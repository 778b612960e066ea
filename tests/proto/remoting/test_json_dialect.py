"""JSON as fastjson writes it: what is read, and how a bad text is explained."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.json_dialect import DEPTH_MAX, read_json, write_json
from tests.harness.hostile_input import limit_cpu

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_standard_json_is_read(value: Any) -> None:
    assert read_json(json.dumps(value).encode()) == value
    assert read_json(write_json(value)) == value


@given(VALUES)
def test_the_own_reader_reads_standard_json_too(value: Any) -> None:
    # The comma after the last element keeps the standard library's reader from it.
    assert read_json(b"[" + json.dumps(value).encode() + b",]") == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"brokerAddrs":{0:"10.0.0.1:10911",-1:"x"}}', {"brokerAddrs": {"0": "10.0.0.1:10911", "-1": "x"}}),
        (
            '{"offsetTable":{{"topic":"T","brokerName":"b","queueId":0}:12}}',
            {"offsetTable": {'{"brokerName":"b","queueId":0,"topic":"T"}': 12}},
        ),
        ("{[1,2]:3}", {"[1,2]": 3}),
        ("{'a':'it\\'s',}", {"a": "it's"}),
        ("{a:1, $b_2 : [ ] }", {"a": 1, "$b_2": []}),
        ("[1,2,]", [1, 2]),
        ("[true,false,null,undefined,]", [True, False, None, None]),
        ("[-1.5e3,1.,+2,]", [-1500.0, 1.0, 2]),
        ("[Infinity,-Infinity,]", [math.inf, -math.inf]),
        (r"['\x41\u00fc\v\0\'\/\b']", ["Aü\v\0'/\b"]),
        ("['tab\tand\nline']", ["tab\tand\nline"]),
        ('{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_the_dialect_is_read(text: str, value: Any) -> None:
    assert read_json(text.encode()) == value


def test_nan_is_read() -> None:
    assert math.isnan(read_json(b"{0:NaN}")["0"])


@pytest.mark.parametrize(
    ("text", "read"),
    [(r'"\ud83d\ude00"', "😀"), (r'"\ud83d"', "\ufffd"), (r"['\ude00x']", ["\ufffdx"]), (b'"\xff"', "\ufffd")],
)
def test_half_a_pair_and_bad_bytes_become_a_mark(text: str | bytes, read: Any) -> None:
    assert read_json(text if isinstance(text, bytes) else text.encode()) == read


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "the end at character 0 of 0, expected a value"),
        ("{0:1", "the end at character 4 of 4, expected ',' or '}'"),
        ("{0}", "'}' at character 2 of 3, expected ':'"),
        ("[1 2,]", "'2,]' at character 3 of 6, expected ',' or ']'"),
        ("{0:}", "'}' at character 3 of 4, expected a value"),
        ("[,]", "',]' at character 1 of 3, expected a value"),
        ("{0:1}x", "'x' at character 5 of 6, expected nothing more"),
        ("{0:'a}", "expected a text with ' at its end"),
        (r"['\q']", "unknown escape"),
        ("[nul]", "'nul]' at character 1 of 5, expected a value"),
        ("{{{1:2}:3}:4}", "no object in the key of an object that is a key itself"),
        ("[" * 100_000, f"{DEPTH_MAX} objects and arrays"),
        ("{a:" * (DEPTH_MAX + 1), f"at most {DEPTH_MAX} objects and arrays inside each other"),
        ("[" + "1" * 100_000 + ",]", "a number of at most 400 digits"),
        ("1" * 100_000, "a number of at most 400 digits"),
    ],
)
def test_a_bad_text_is_explained(text: str, error: str) -> None:
    with pytest.raises(WireError) as caught:
        read_json(text.encode())
    assert error in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_text_may_be_too_long() -> None:
    assert read_json(b"[1]", bytes_max=3) == [1]
    with pytest.raises(WireError, match="JSON has 4 bytes, expected at most 3"):
        read_json(b"[12]", bytes_max=3)


def read_or_explain(text: bytes) -> bool:
    """Whether a text gives a value that can be written, or an error that can be read."""
    try:
        value = read_json(text)
    except WireError as error:
        return len(str(error)) < 300
    return bool(write_json(value))


ODD = st.sampled_from(
    ["{", "}", "[", "]", ",", ":", "'", '"', "\\", "0", "-", "1.5", "a", "null", "\\u", "\\ud800", " "]
)


@pytest.mark.edge
@given(st.lists(ODD | TEXTS, max_size=20).map("".join))
@limit_cpu
def test_any_text_gives_a_value_or_an_error(text: str) -> None:
    assert read_or_explain(text.encode())


@pytest.mark.edge
@given(value=VALUES, data=st.data())
@limit_cpu
def test_a_damaged_text_gives_a_value_or_an_error(value: Any, data: st.DataObject) -> None:
    text = bytearray(json.dumps(value).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    assert read_or_explain(bytes(text[: data.draw(st.integers(0, len(text)))]))
