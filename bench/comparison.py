"""A workload that several contenders run in turn: its figures, ratios and aims, and their form in JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.costs import Costs
from bench.results import Aim

OURS = "rmqpull"
KAFKA = "Kafka"
CEILING = "engine ceiling"
FORMAT = 1
"""The version of the JSON form. Another version is not read."""
REASON_LENGTH_MAX = 300


class Mismeasured(Exception):
    """A measurement is invalid: its figure would be misleading."""


@dataclass
class Comparison:
    """The figures of one workload.

    ``aims`` are for the ratio of rmqpull's median to that of the named contender; rmqpull's own aim is for its median.
    ``not_run`` says why a contender is missing, ``failed`` why it failed.
    """

    name: str
    title: str
    unit: str
    aims: Mapping[str, Aim] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    figures: dict[str, list[float]] = field(default_factory=dict)
    not_run: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, contender: str, figure: float) -> None:
        """Adds the figure of a run."""
        self.figures.setdefault(contender, []).append(figure)

    def fail(self, contender: str, reason: str) -> None:
        """Marks a contender as failed. Its figures are dropped, because they do not cover all runs."""
        self.figures.pop(contender, None)
        self.failed[contender] = reason

    def median(self, contender: str) -> float:
        """Returns the median of a contender's runs, or None."""
        return statistics.median(self.figures[contender])

    def ratio(self, contender: str) -> float | None:
        """Returns the ratio of rmqpull's median to a contender's, or None if one is missing."""
        if contender == OURS or not (self.figures.get(contender) and self.figures.get(OURS)):
            return None
        return self.median(OURS) / self.median(contender)

    def verdict(self, contender: str) -> bool | None:
        """Returns whether the aim is met, or None without an aim or a figure."""
        aim = self.aims.get(contender)
        value = self.ratio(contender)
        if contender == OURS and self.figures.get(OURS):
            value = self.median(OURS)
        return None if aim is None or value is None else aim.is_met(value)

    def contenders(self) -> list[str]:
        """Returns all contenders that were measured or should have been, rmqpull first."""
        names = [*self.figures, *self.failed, *self.not_run, *self.aims]
        return sorted(dict.fromkeys(names), key=lambda name: name != OURS)

    def as_json(self) -> dict[str, Any]:
        """Returns all figures and what is computed from them."""
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "sizes": dict(self.sizes),
            "contenders": {name: self._contender(name) for name in self.contenders()},
        }

    def _contender(self, name: str) -> dict[str, Any]:
        figures = self.figures.get(name, [])
        aim = self.aims.get(name)
        return {
            "figures": figures,
            "median": self.median(name) if figures else None,
            "rmqpull_to_it": self.ratio(name),
            "aim": {"at_least": _finite(aim.at_least), "at_most": _finite(aim.at_most)} if aim else None,
            "is_met": self.verdict(name),
            "not_run": self.not_run.get(name),
            "failed": self.failed.get(name),
        }


def reason_of(error: Exception) -> str:
    """Returns the reason in one line of limited length."""
    first_line = next(iter(str(error).strip().splitlines()), "").rstrip(".")
    return f"{type(error).__name__}: {first_line}"[:REASON_LENGTH_MAX]


@contextmanager
def contain_failure(contender: str, *comparisons: Comparison) -> Iterator[None]:
    """Marks the contender as failed in ``comparisons`` if the block raises. The other contenders continue."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (whatever it is: the other figures of a long run are worth keeping)
        for comparison in comparisons:
            comparison.fail(contender, reason_of(error))


@dataclass(frozen=True)
class Contender:
    """Runs a workload, and returns its figure. It may count for several comparisons."""

    name: str
    workload: Callable[[], float]
    comparisons: Sequence[Comparison]


def measure(
    comparison: Comparison, contenders: Mapping[str, Callable[[], float]], runs: int, warm_ups: int = 1
) -> Comparison:
    """Measures the contenders of one comparison, as ``measure_all`` does."""
    measure_all([Contender(name, workload, [comparison]) for name, workload in contenders.items()], runs, warm_ups)
    return comparison


def measure_all(contenders: Sequence[Contender], runs: int, warm_ups: int = 1, *, alternates: bool = False) -> None:
    """Measures the contenders in turn, so that a machine that slows down slows all of them. The first rounds only warm
    up.

    A contender that fails is not measured again, and has no figure. ``alternates`` reverses every second round.
    """
    for number in range(warm_ups + runs):
        for contender in reversed(contenders) if alternates and number % 2 else contenders:
            name, comparisons = contender.name, contender.comparisons
            if any(name in comparison.failed for comparison in comparisons):
                continue
            with contain_failure(name, *comparisons):
                figure = contender.workload()
                for comparison in comparisons if number >= warm_ups else ():
                    comparison.add(name, figure)


def document(
    comparisons: list[Comparison], machine: Mapping[str, str], asked: Mapping[str, Any], costs: Sequence[Costs] = ()
) -> dict[str, Any]:
    """Returns a whole run as JSON."""
    return {
        "format": FORMAT,
        "machine": dict(machine),
        "asked": dict(asked),
        "comparisons": [comparison.as_json() for comparison in comparisons],
        **({"costs": [one.as_json() for one in costs]} if costs else {}),
    }


def comparisons_of(kept: Mapping[str, Any]) -> list[Comparison]:
    """Returns the comparisons in the JSON of a run. Raises ValueError with the reason if it is not a run."""
    if kept.get("format") != FORMAT:
        raise ValueError(f"The results have format {kept.get('format')!r}; this reads {FORMAT}. Run: make bench")
    try:
        return [_comparison(entry) for entry in kept["comparisons"]]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"The results are incomplete: {type(error).__name__} {error}. Run: make bench") from None


def _comparison(entry: Mapping[str, Any]) -> Comparison:
    contenders = entry["contenders"]
    return Comparison(
        entry["name"],
        entry["title"],
        entry["unit"],
        {name: _aim(kept["aim"]) for name, kept in contenders.items() if kept["aim"]},
        entry["sizes"],
        {name: kept["figures"] for name, kept in contenders.items() if kept["figures"]},
        {name: kept["not_run"] for name, kept in contenders.items() if kept["not_run"]},
        {name: kept["failed"] for name, kept in contenders.items() if kept.get("failed")},
    )


def _aim(kept: Mapping[str, float | None]) -> Aim:
    at_least, at_most = kept["at_least"], kept["at_most"]
    return Aim(float("-inf") if at_least is None else at_least, float("inf") if at_most is None else at_most)


def _finite(bound: float) -> float | None:
    return None if abs(bound) == float("inf") else bound
