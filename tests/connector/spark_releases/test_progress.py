"""Offsets of a progress are read in the form of each release."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.spark_releases.progress import parse_offset

FORM = {"offsets": {"it's": {"a": {"0": 7}}}, "rowsLost": None, "version": 1}


@pytest.mark.parametrize("written", [lambda form: form, json.dumps, str], ids=["value", "JSON", "Python's repr"])
def test_each_form_gives_the_same(written: Any) -> None:
    assert parse_offset(written(FORM)) == FORM


@pytest.mark.parametrize("text", ["", "LogOffset 12", "{", "{'a': open('x')}", "{1: 2", "{" * 100_000, "-", None])
def test_any_other_text_is_none(text: Any) -> None:
    assert parse_offset(text) is None


@given(st.text() | st.text().map("{{{}}}".format))
def test_no_text_is_an_error(text: str) -> None:
    parse_offset(text)
