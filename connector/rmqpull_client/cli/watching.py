"""Repeats what a command shows, until Ctrl-C."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from rmqpull_client.cli.frame import flags
from rmqpull_client.cli.output import Row, make_table, show_json, show_table
from rmqpull_client.cli.values import SECONDS

watch_options = flags(
    click.option("--watch", "is_watched", is_flag=True, help="Repeat until Ctrl-C."),
    click.option(
        "--interval",
        "interval_s",
        type=SECONDS,
        default=2.0,
        show_default=True,
        metavar="SECONDS",
        help="Time between two outputs of --watch.",
    ),
    click.option(
        "--times", type=click.IntRange(min=1), metavar="N", help="Number of outputs after which --watch ends."
    ),
)


def watch(
    query: Callable[[], Sequence[Row]], columns: Sequence[str], interval_s: float, times: int | None, *, as_json: bool
) -> None:
    """Shows rows again and again: in place at a terminal, else one table after the other, or a line of JSON each time.

    Ctrl-C is the normal end, unless it ends after ``times``.
    """
    outputs = _repeat(query, interval_s, times)
    try:
        if as_json:
            for rows in outputs:
                show_json(rows)
        elif sys.stdout.isatty():
            _watch_in_place(outputs, columns)
        else:
            for rows in outputs:
                show_table(rows, columns)
    except KeyboardInterrupt:
        pass


def _repeat(query: Callable[[], Any], interval_s: float, times: int | None) -> Iterable[Any]:
    for number in itertools.count(1):
        yield query()
        if number == times:
            return
        time.sleep(interval_s)


def _watch_in_place(outputs: Iterable[Sequence[Row]], columns: Sequence[str]) -> None:
    from rich.live import Live  # slow to import

    with Live(auto_refresh=False) as live:
        for rows in outputs:
            live.update(make_table(rows, columns), refresh=True)
