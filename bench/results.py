"""Figures of several runs: a table for people, JSON for machines, and the machine that they depend on."""

from __future__ import annotations

import os
import platform
import statistics
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.table import Column, Table

LIBRARIES = ("grpcio", "protobuf", "pyarrow")


@dataclass(frozen=True)
class Aim:
    """The aim for a median: at least, at most, or both."""

    at_least: float = float("-inf")
    at_most: float = float("inf")
    of_peer: bool = False
    """Whether the aim is for the ratio to the peer."""

    def is_met(self, value: float) -> bool:
        """Whether ``value`` meets the aim."""
        return self.at_least <= value <= self.at_most

    def __str__(self) -> str:
        bounds = []
        if self.at_least > float("-inf"):
            bounds.append(f">= {shown(self.at_least)}")
        if self.at_most < float("inf"):
            bounds.append(f"<= {shown(self.at_most)}")
        return " and ".join(bounds) + " of peer" * self.of_peer


@dataclass
class Work:
    """A work that was measured several times."""

    name: str
    unit: str
    peer: str
    aim: Aim | None
    figures: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.figures)


class Results:
    """Figures by work, in the order of their first run."""

    def __init__(self) -> None:
        self._works: dict[str, Work] = {}

    def add(self, name: str, unit: str, figure: float, peer: str = "", aim: Aim | None = None) -> None:
        """Adds the figure of a run. ``peer`` names the work that it is compared with."""
        self._works.setdefault(name, Work(name, unit, peer, aim)).figures.append(figure)

    def median(self, name: str) -> float:
        """Returns the median so far."""
        return self._works[name].median

    def table(self) -> Table:
        """Returns the table to print."""
        table = Table(Column("work", no_wrap=True), "unit", "median", "lowest", "highest", "of its peer", "aim", "")
        for work in self._works.values():
            low_to_high = map(shown, (work.median, min(work.figures), max(work.figures)))
            ratio = self._ratio(work)
            verdict = {None: "", True: "met", False: "[bold]missed[/]"}[self._is_met(work)]
            shown_ratio = "" if ratio is None else f"{ratio:.2f}"
            table.add_row(work.name, work.unit, *low_to_high, shown_ratio, str(work.aim or ""), verdict)
        return table

    def as_json(self) -> list[dict[str, Any]]:
        """Returns all figures as JSON."""
        return [
            {
                "work": work.name,
                "unit": work.unit,
                "median": work.median,
                "figures": work.figures,
                "peer": work.peer or None,
                "of_its_peer": self._ratio(work),
                "aim": str(work.aim) if work.aim else None,
                "is_met": self._is_met(work),
            }
            for work in self._works.values()
        ]

    def _ratio(self, work: Work) -> float | None:
        return work.median / self._works[work.peer].median if work.peer else None

    def _is_met(self, work: Work) -> bool | None:
        if work.aim is None:
            return None
        ratio = self._ratio(work) if work.aim.of_peer else work.median
        return ratio is not None and work.aim.is_met(ratio)


def shown(value: float) -> str:
    """Returns a figure as people read it."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def machine() -> dict[str, str]:
    """Returns what the figures depend on."""
    memory_kb = int(Path("/proc/meminfo").read_text(encoding="ascii").split()[1])
    versions = {library: version(library) for library in LIBRARIES}
    return {
        "cores": str(os.cpu_count()),
        "memory": f"{memory_kb / 1e6:.1f} GB",
        "system": platform.platform(),
        "python": platform.python_version(),
        **versions,
    }
