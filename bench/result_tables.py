"""The results of a run as tables: in the terminal, and in Markdown for the docs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Column, Table

from bench.comparison import OURS, Comparison, comparisons_of
from bench.costs import Costs, cost_rows, costs_of
from bench.results import Aim, shown

HEAD = ("workload", "unit", "contender", "median", "lowest", "highest", "rmqpull / contender", "aim", "")
NOT_MEASURED = "Not measured yet."


def rows(comparisons: Sequence[Comparison]) -> Iterator[tuple[str, ...]]:
    """Yields a line for each contender of each workload."""
    for comparison in comparisons:
        title, unit = comparison.title, comparison.unit
        for contender in comparison.contenders():
            yield (title, unit, contender, *_figures(comparison, contender), *_aim(comparison, contender))
            title = unit = ""


def _figures(comparison: Comparison, contender: str) -> tuple[str, ...]:
    figures = comparison.figures.get(contender)
    if not figures:
        return ("failed" if contender in comparison.failed else "not run", "", "", "")
    ratio = comparison.ratio(contender)
    low_to_high = (comparison.median(contender), min(figures), max(figures))
    return (*map(shown, low_to_high), "" if ratio is None else f"{ratio:.2f}")


def _aim(comparison: Comparison, contender: str) -> tuple[str, str]:
    aim: Aim | None = comparison.aims.get(contender)
    verdict = {None: "", True: "met", False: "missed"}[comparison.verdict(contender)]
    return ("" if aim is None else str(aim), verdict)


def table(comparisons: Sequence[Comparison]) -> Table:
    """Returns the table for the terminal."""
    made = Table(*(Column(name, no_wrap=number < 3) for number, name in enumerate(HEAD)))
    for line in rows(comparisons):
        verdict = f"[bold]{line[-1]}[/]" if line[-1] == "missed" else line[-1]
        made.add_row(*line[:-1], verdict, style="bold" if line[2] == OURS else None)
    return made


def cost_table(costs: Sequence[Costs]) -> Table:
    """Returns the table of processor time for the terminal."""
    head, *lines = cost_rows(costs)
    made = Table(*(Column(name, no_wrap=number < 2) for number, name in enumerate(head)))
    for line in lines:
        made.add_row(*line)
    return made


def reasons(comparisons: Sequence[Comparison]) -> list[str]:
    """Returns why contenders have no figure, each sentence once."""
    told = {f"{name} was not run: {why}." for one in comparisons for name, why in one.not_run.items()}
    failed = {f"{name} failed in {one.title}: {why}." for one in comparisons for name, why in one.failed.items()}
    return [*sorted(told), *sorted(failed)]


def conditions(kept: Mapping[str, Any]) -> str:
    """Returns the machine and the sizes of the run, in a line."""
    pairs = {**kept["machine"], **kept["asked"]}
    return ", ".join(f"{name} {_plain(value)}" for name, value in pairs.items()) + "."


def _plain(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return " / ".join(map(_plain, value))
    return f"{value:,}" if isinstance(value, int) else str(value)


def markdown(kept: Mapping[str, Any] | None) -> str:
    """Returns the results for the docs; ``kept`` is the JSON of a run. Raises ValueError if it is not a run."""
    if kept is None:
        return NOT_MEASURED
    comparisons = comparisons_of(kept)
    made = _as_markdown([HEAD, *rows(comparisons)])
    costs = _as_markdown(list(cost_rows(costs_of(kept))))
    return "\n".join([*made, "", conditions(kept), *reasons(comparisons), *([""] * bool(costs)), *costs])


def _as_markdown(lines: Sequence[tuple[str, ...]]) -> list[str]:
    """Returns a table. Its first line is the head."""
    ruled = [*lines[:1], *(("---",) * len(head) for head in lines[:1]), *lines[1:]]
    return [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in ruled]
