"""A dead letter is a message that every broker takes, made of a row that none would take."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from pyspark_rmqpull.sink.invalid_rows import (
    BODY_BYTES_MAX,
    REASON,
    ROW,
    TEXT_CHARACTERS_MAX,
    TOPIC,
    InvalidRow,
    make_dead_letter,
)
from pyspark_rmqpull.sink.topic_parts import TopicRows
from rmqpull_proto import columns as wire


def make_letter(reason: str = "no", topic: str = "orders", **columns: Any) -> tuple[dict[str, Any], dict[str, str]]:
    (row,) = make_dead_letter(InvalidRow(TopicRows(topic, pa.record_batch(columns)), reason)).to_pylist()
    return row, dict(row["properties"])


def test_a_letter_has_the_reason_the_topic_and_the_other_columns() -> None:
    row, properties = make_letter(body=pa.array([b"x"]), tags=["a|b"], keys=pa.array([["k"]], wire.KEYS))
    assert row["body"] == b"x"
    assert (properties[REASON], properties[TOPIC]) == ("no", "orders")
    assert json.loads(properties[ROW]) == {"tags": "a|b", "keys": ["k"]}


@pytest.mark.parametrize("body", [None, b""])
def test_a_row_without_a_body_gets_one(body: bytes | None) -> None:
    row, properties = make_letter(topic="", body=pa.array([body], pa.binary()))
    assert row["body"] == b"(no body)"
    assert properties[TOPIC] == "null"


@pytest.mark.parametrize(("size", "encoding"), [(BODY_BYTES_MAX, 0x301), (BODY_BYTES_MAX + 1, 1)])
def test_a_body_that_is_too_large_is_cut_and_no_longer_counts_as_compressed(size: int, encoding: int) -> None:
    packed = {"body": pa.array([b"x" * size]), "bodyEncoding": pa.array([0x301], pa.int32()), "tags": ["t" * 10_000]}
    row, properties = make_letter(**packed)
    assert len(row["body"]) == BODY_BYTES_MAX
    assert row["bodyEncoding"] == encoding
    assert len(properties[ROW]) == TEXT_CHARACTERS_MAX


def test_a_letter_has_no_control_characters_whatever_the_row_has() -> None:
    _, properties = make_letter("a\x01b", "c\x7fd", body=pa.array([b"x"]), tags=["e\nf\x7f"])
    assert (properties[REASON], properties[TOPIC]) == ("a?b", "c?d")
    assert properties[ROW] == r'{"tags": "e\nf\u007f"}'
