"""What commands print: tables for people, JSON for machines.

Rows are dicts with camelCase keys, which are the keys of the JSON and, spelled as words, the heads of the table. On a
terminal a table is drawn to fit; elsewhere it is plain text that cuts nothing off.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

Row = Mapping[str, Any]


def show(rows: Sequence[Row], keys: Sequence[str], *, as_json: bool, nothing: str = "") -> None:
    """Prints rows as a table of these columns, or all of what they hold as one JSON array.

    ``nothing`` is said, on standard error, when there are none.
    """
    if as_json:
        show_json(rows)
    elif rows:
        show_table(rows, keys)
    elif nothing:
        click.echo(nothing, err=True)


def show_json(document: Any) -> None:
    """Prints one JSON document on one line: lines are what shells and jq are good at."""
    click.echo(json.dumps(document, ensure_ascii=False, separators=(",", ":")))


def show_table(rows: Sequence[Row], keys: Sequence[str], title: str | None = None) -> None:
    """Prints a table, drawn on a terminal and plain elsewhere."""
    if sys.stdout.isatty():
        from rich.console import Console  # costs as much as the rest of a small command

        Console(highlight=False).print(drawn(rows, keys, title))
        return
    if title:
        click.echo(title)
    for line in plain_lines(rows, keys):
        click.echo(line)


def show_fields(fields: Row) -> None:
    """Prints one thing: a name and a value per line."""
    width = max(len(_head(key)) for key in fields)
    for key, value in fields.items():
        click.echo(f"{_head(key):<{width}}  {cell(value)}")


def plain_lines(rows: Sequence[Row], keys: Sequence[str]) -> list[str]:
    """A table in plain text: columns two blanks apart, numbers to the right, nothing cut off."""
    lines = [[_head(key) for key in keys], *([cell(row.get(key)) for key in keys] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = [_is_numeric(rows, key) for key in keys]
    return ["  ".join(map(_padded, line, widths, numeric)).rstrip() for line in lines]


def _padded(text: str, width: int, is_numeric: bool) -> str:
    return text.rjust(width) if is_numeric else text.ljust(width)


def drawn(rows: Sequence[Row], keys: Sequence[str], title: str | None = None) -> Any:
    """A table for a terminal; long values wrap."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for key in keys:
        table.add_column(_head(key), justify="right" if _is_numeric(rows, key) else "left", overflow="fold")
    for row in rows:
        # Text, for a message may hold what rich would read as markup.
        table.add_row(*(Text(cell(row.get(key))) for key in keys))
    return table


def _is_numeric(rows: Sequence[Row], key: str) -> bool:
    values = [row.get(key) for row in rows]
    return any(type(value) is int for value in values) and all(value is None or type(value) is int for value in values)


def _head(key: str) -> str:
    return re.sub("([A-Z])", r" \1", key).upper()


def cell(value: Any) -> str:
    """A value on one line of a table."""
    if value is None or value == "" or value == [] or value == {}:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        value = [f"{name}={item}" for name, item in value.items()]
    if isinstance(value, (list, tuple)):
        value = ", ".join(map(str, value))
    return _visible(str(value))


def _visible(text: str) -> str:
    """Text whose control characters cannot play with the terminal or break the line."""
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
