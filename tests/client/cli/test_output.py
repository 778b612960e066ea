"""Tables and JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from rich.console import Console

from rmqpull_client.cli.output import format_cell, format_lines, make_table, show, show_fields, show_json

ROWS = [{"topic": "orders", "queueId": 0, "tags": None}, {"topic": "a", "queueId": 12, "tags": "paid"}]


def test_a_plain_table_has_headers_and_right_aligned_numbers() -> None:
    assert format_lines(ROWS, ("topic", "queueId", "tags")) == [
        "TOPIC   QUEUE ID  TAGS",
        "orders         0  -",
        "a             12  paid",
    ]


def test_a_plain_table_is_complete() -> None:
    (_, line) = format_lines([{"body": "x" * 10_000}], ("body",))
    assert line == "x" * 10_000


def test_a_terminal_table_wraps_long_values_and_ignores_markup() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=40, force_terminal=True, color_system=None)
    console.print(make_table([{"topic": "[bold]orders[/]", "body": "x" * 100}], ("topic", "body")))
    assert "[bold]orders[/]" in screen.getvalue()
    assert screen.getvalue().count("x") == 100
    assert all(len(line) <= 40 for line in screen.getvalue().splitlines())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        ("", "-"),
        ([], "-"),
        ({}, "-"),
        (0, "0"),
        (False, "no"),
        (True, "yes"),
        (["a", "b"], "a, b"),
        ({"a": "1", "b": "2"}, "a=1, b=2"),
        ("a\nb\tc\x1b[31m", r"a\nb\tc\x1b[31m"),
        ("ü", "ü"),
    ],
)
def test_a_value_is_printed_on_one_line(value: Any, text: str) -> None:
    assert format_cell(value) == text


def test_json_is_one_line_with_all_fields(capsys: pytest.CaptureFixture[str]) -> None:
    show(ROWS, ("topic",), as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
    show_json({"body": "ü\n"})
    assert capsys.readouterr().out == '{"body":"ü\\n"}\n'


def test_nothing_is_printed_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    show([], ("topic",), as_json=False, nothing="there is nothing")
    assert capsys.readouterr() == ("", "there is nothing\n")
    show([], ("topic",), as_json=True, nothing="there is nothing")
    assert capsys.readouterr() == ("[]\n", "")


def test_fields_are_names_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    show_fields({"topic": "orders", "readQueues": 8})
    assert capsys.readouterr().out == "TOPIC        orders\nREAD QUEUES  8\n"
