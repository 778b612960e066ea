"""What commands print: tables for people, JSON for programs, a progress bar, and failures.

Rows are dicts with camelCase keys: the keys of the JSON and, split into words, the headers of the table. On a terminal
a table fits the width; elsewhere it is plain text, and nothing is cut off.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

Row = Mapping[str, Any]


class Refused(click.ClickException):
    """The broker refused the call, or there is nothing to show. ``code`` is the name of the status code."""

    exit_code = 1

    def __init__(self, sentence: str, code: str = "") -> None:
        super().__init__(sentence)
        self.code = code


class Unreachable(click.ClickException):
    """No broker answered in time. It is unknown whether the call was executed."""

    exit_code = 3


def show(rows: Sequence[Row], keys: Sequence[str], *, as_json: bool, nothing: str = "") -> None:
    """Prints rows as a table with these columns, or with all fields as one JSON array.

    Without rows, prints ``nothing`` to standard error.
    """
    if as_json:
        show_json(rows)
    elif rows:
        show_table(rows, keys)
    elif nothing:
        click.echo(nothing, err=True)


def show_json(document: Any) -> None:
    """Prints a JSON document on one line, as shell scripts and jq expect it."""
    click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def show_table(rows: Sequence[Row], keys: Sequence[str], title: str | None = None) -> None:
    """Prints a table: formatted on a terminal, plain text elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console  # slow to import

        Console(highlight=False).print(make_table(rows, keys, title))
        return
    if title:
        click.echo(title)
    for line in format_lines(rows, keys):
        click.echo(line)


def show_fields(fields: Row) -> None:
    """Prints one object: a name and a value per line."""
    width = max(len(_header(key)) for key in fields)
    for key, value in fields.items():
        click.echo(f"{_header(key):<{width}}  {format_cell(value)}")


def format_lines(rows: Sequence[Row], keys: Sequence[str]) -> list[str]:
    """Formats a table as plain text: two spaces between columns, numbers right-aligned, nothing cut off."""
    lines = [[_header(key) for key in keys], *([format_cell(row.get(key)) for key in keys] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = [_is_numeric(rows, key) for key in keys]
    return ["  ".join(map(_padded, line, widths, numeric)).rstrip() for line in lines]


def _padded(text: str, width: int, is_numeric: bool) -> str:
    return text.rjust(width) if is_numeric else text.ljust(width)


def make_table(rows: Sequence[Row], keys: Sequence[str], title: str | None = None) -> Any:
    """Formats a table for a terminal; long values wrap."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for key in keys:
        table.add_column(_header(key), justify="right" if _is_numeric(rows, key) else "left", overflow="fold")
    for row in rows:
        # Text, because rich would interpret markup in a message.
        table.add_row(*(Text(format_cell(row.get(key))) for key in keys))
    return table


def _is_numeric(rows: Sequence[Row], key: str) -> bool:
    values = [row.get(key) for row in rows]
    return any(type(value) is int for value in values) and all(value is None or type(value) is int for value in values)


def _header(key: str) -> str:
    return re.sub("([A-Z])", r" \1", key).upper()


def format_cell(value: Any) -> str:
    """Formats a value for one line of a table."""
    if value is None or value == "" or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        value = [f"{name}={item}" for name, item in value.items()]
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    return _visible(str(value))


def describe_count(count: int) -> str:
    """Returns a number of messages in words, such as '1 message'."""
    return f"{count} message{'s' * (count != 1)}"


def _visible(text: str) -> str:
    """Escapes control characters, which could change the terminal or break the line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


@contextmanager
def byte_progress(total: int | None) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on standard error, and yields a function that advances it by bytes."""
    from rich.progress import DownloadColumn, TransferSpeedColumn

    with _show_progress("sending", total, (DownloadColumn(), TransferSpeedColumn())) as advance:
        yield advance


@contextmanager
def count_progress(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Shows a progress bar on standard error, if that is a terminal, and yields a function that advances it."""
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    from rich.progress import MofNCompleteColumn

    with _show_progress(what, total, (MofNCompleteColumn(),)) as advance:
        yield advance


@contextmanager
def _show_progress(what: str, total: int | None, columns: Sequence[Any]) -> Iterator[Callable[[int], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    parts = (TextColumn(what), BarColumn(), *columns, TimeRemainingColumn())
    with Progress(*parts, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda count: progress.advance(task, count)
