"""JSON of options, in which nothing is named twice."""

from __future__ import annotations

import re

import pytest

from pyspark_rmqpull.json_text import parse_json, repeated


def test_json_is_read_as_it_is() -> None:
    assert parse_json('{"a":{"b":[1,"c"]}}', "Expected anything.") == {"a": {"b": [1, "c"]}}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "It is no JSON (Expecting property name enclosed in double quotes: line 1 column 2 (char 1)). "),
        ('{"a":1,"b":2,"a":3}', "It names 'a' twice. "),
        ('{"x":{"a":1,"a":1}}', "It names 'a' twice. "),
        ("[" * 100_000, "It is no JSON ("),
        ("9" * 5_000, "It is no JSON (Exceeds the limit (4300"),
    ],
)
def test_what_is_wrong_comes_before_what_was_expected(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(complaint)}.*Expected a list.$"):
        parse_json(text, "Expected a list.")


def test_values_that_come_again_are_told_once() -> None:
    assert repeated("abacab") == ["a", "b"]
