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
class Workload:
    """A workload that was measured several times."""

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
    """Figures by workload, in the order of their first run."""

    def __init__(self) -> None:
        self._workloads: dict[str, Workload] = {}

    def add(self, name: str, unit: str, figure: float, peer: str = "", aim: Aim | None = None) -> None:
        """Adds the figure of a run. ``peer`` names the workload that it is compared with."""
        self._workloads.setdefault(name, Workload(name, unit, peer, aim)).figures.append(figure)

    def median(self, name: str) -> float:
        """Returns the median so far."""
        return self._workloads[name].median

    def table(self) -> Table:
        """Returns the table to print."""
        table = Table(Column("workload", no_wrap=True), "unit", "median", "lowest", "highest", "of its peer", "aim", "")
        for workload in self._workloads.values():
            low_to_high = map(shown, (workload.median, min(workload.figures), max(workload.figures)))
            ratio = self._ratio(workload)
            verdict = {None: "", True: "met", False: "[bold]missed[/]"}[self._is_met(workload)]
            shown_ratio = "" if ratio is None else f"{ratio:.2f}"
            table.add_row(workload.name, workload.unit, *low_to_high, shown_ratio, str(workload.aim or ""), verdict)
        return table

    def as_json(self) -> list[dict[str, Any]]:
        """Returns all figures as JSON."""
        return [
            {
                "work": workload.name,
                "unit": workload.unit,
                "median": workload.median,
                "figures": workload.figures,
                "peer": workload.peer or None,
                "of_its_peer": self._ratio(workload),
                "aim": str(workload.aim) if workload.aim else None,
                "is_met": self._is_met(workload),
            }
            for workload in self._workloads.values()
        ]

    def _ratio(self, workload: Workload) -> float | None:
        return workload.median / self._workloads[workload.peer].median if workload.peer else None

    def _is_met(self, workload: Workload) -> bool | None:
        if workload.aim is None:
            return None
        ratio = self._ratio(workload) if workload.aim.of_peer else workload.median
        return ratio is not None and workload.aim.is_met(ratio)


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
