"""Where the time of a workload goes: the processor time of each kind of process, for each contender."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Spent = Mapping[str, float]
"""Seconds of processor time by kind of process."""


@dataclass
class Costs:
    """Seconds of a core per million rows, by contender, run and kind of process. ``kinds`` are the columns."""

    title: str
    kinds: Sequence[str]
    runs: dict[str, list[dict[str, float]]] = field(default_factory=dict)

    def add(self, contender: str, before: Spent, after: Spent, rows: int) -> None:
        """Adds a run that has moved so many rows."""
        taken = {kind: (after.get(kind, 0.0) - before.get(kind, 0.0)) / rows * 1e6 for kind in self.kinds}
        self.runs.setdefault(contender, []).append(taken)

    def watch(
        self, contender: str, rows: int, workload: Callable[[], float], spent: Callable[[], Spent]
    ) -> Callable[[], float]:
        """Returns the same workload, which also adds its cost if it succeeds."""

        def run() -> float:
            before = spent()
            figure = workload()
            self.add(contender, before, spent(), rows)
            return figure

        return run

    def drop_warm_ups(self, count: int = 1) -> None:
        """Drops the first runs of each contender."""
        self.runs = {contender: runs[count:] for contender, runs in self.runs.items() if len(runs) > count}

    def medians(self, contender: str) -> dict[str, float]:
        """Returns the median of each kind."""
        return {kind: statistics.median(run[kind] for run in self.runs[contender]) for kind in self.kinds}

    def sums(self, contender: str) -> list[float]:
        """Returns the seconds of all kinds together, by run."""
        return [sum(run.values()) for run in self.runs[contender]]

    def as_json(self) -> dict[str, Any]:
        """Returns all figures."""
        return {"title": self.title, "kinds": list(self.kinds), "runs": self.runs}


def costs_of(kept: Mapping[str, Any]) -> list[Costs]:
    """Returns the costs in the JSON of a run. Most runs have none."""
    return [Costs(entry["title"], entry["kinds"], entry["runs"]) for entry in kept.get("costs", ())]


def cost_rows(all_costs: Sequence[Costs]) -> Iterator[tuple[str, ...]]:
    """Yields the head of a table, and a line for each contender of each workload."""
    if not all_costs:
        return
    kinds = list(dict.fromkeys(kind for costs in all_costs for kind in costs.kinds))
    yield ("seconds of a core per million rows", "", *kinds, "sum")
    for costs in all_costs:
        title = costs.title
        for contender in costs.runs:
            medians = costs.medians(contender)
            yield (title, contender, *(_shown(medians.get(kind, 0.0)) for kind in kinds), _shown(sum(medians.values())))
            title = ""


def _shown(seconds: float) -> str:
    return f"{seconds:.2f}" if seconds >= 0.005 else ""
