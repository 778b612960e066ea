"""Messages as lines: a printed line can be read again, and invalid lines are refused."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.cli.message_lines import BadLine, make_json_rows, read_message
from rmqpull_proto.columns import PULL_SCHEMA

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
TIMES_US = st.integers(-62_135_596_800_000, 253_402_300_799_999).map(lambda ms: ms * 1000)
MESSAGES = st.fixed_dictionaries(
    {"body": st.binary(min_size=1, max_size=32), "bornTimestamp": TIMES_US, "msgId": TEXTS},
    optional={
        "tags": TEXTS,
        "keys": st.lists(TEXTS, min_size=1, max_size=3),
        "properties": st.dictionaries(TEXTS, TEXTS, min_size=1, max_size=3).map(lambda texts: list(texts.items())),
        "bornHost": TEXTS,
        "messageGroup": TEXTS,
        "deliveryTimestamp": TIMES_US,
        "bodyEncoding": st.just(2),
    },
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["body", "tags", "keys", "x"]), inner),
    max_leaves=6,
)


@given(MESSAGES)
def test_a_printed_message_can_be_read(message: dict[str, Any]) -> None:
    stored = {"bodyEncoding": 1, **message, "queueOffset": 3, "storeTimestamp": 0, "storeHost": "s"}
    arrays = [pa.array([stored.get(field.name)], field.type) for field in PULL_SCHEMA]
    (printed,) = make_json_rows(pa.RecordBatch.from_arrays(arrays, schema=PULL_SCHEMA))
    assert read_message(json.dumps(printed)) == message


@given(st.text() | JSON.map(json.dumps))
def test_any_line_is_a_message_or_refused_with_a_reason(line: str) -> None:
    try:
        message = read_message(line)
    except BadLine:
        return
    assert isinstance(message["body"], bytes)


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("hello", "line 1 column 1 (char 0). With --format lines, each line is a body"),
        ("{", "not JSON: "),
        ("1", 'not a JSON object, such as {"body": "hello"}, but a number'),
        ("{}", "a message needs either 'body' or 'bodyBase64'"),
        ('{"body": "a", "bodyBase64": "YQ=="}', "a message needs either 'body' or 'bodyBase64'"),
        ('{"body": 1}', "'body' is a number, not a string"),
        ('{"body": "a", "tag": "t"}', "unknown key 'tag'. Did you mean 'tags'?"),
        ('{"body": "a", "keys": [1]}', "'keys' is a number, not a string"),
        ('{"body": "a", "properties": ["x"]}', "'properties' is a list, not an object of strings"),
        ('{"body": "a", "deliveryTimestamp": "soon"}', "'deliveryTimestamp': 'soon' is not a time"),
        ('{"body": "a", "deliveryTimestamp": true}', "'deliveryTimestamp' is a boolean"),
        ('{"bodyBase64": "?"}', "'bodyBase64' is not base64"),
        ('{"body": "\\ud800"}', "'body' has half of a surrogate pair"),
        ('{"body": "a", "bodyEncoding": "ZIP"}', "'bodyEncoding' is 'ZIP': use one of IDENTITY, GZIP"),
    ],
)
def test_a_line_that_is_not_a_message_is_refused(line: str, sentence: str) -> None:
    with pytest.raises(BadLine) as refused:
        read_message(line)
    assert sentence in str(refused.value)
