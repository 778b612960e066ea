"""One kind of work, done by several contenders in turn: figures, ratios, aims, and their form in JSON."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from bench.results import Aim

OURS = "rmqpull"
KAFKA = "Kafka"
CEILING = "engine ceiling"
FORMAT = 1
"""Number of the JSON form: another one is not read."""
REASON_LENGTH_MAX = 300


class Mismeasured(Exception):
    """A figure would not mean what it says."""


@dataclass
class Comparison:
    """What was measured of one kind of work.

    ``aims`` are of the ratio of rmqpull's median to that of the named contender; the one of rmqpull itself is of its
    median. ``not_run`` says of a contender why it is missing, ``failed`` what went wrong when it was measured.
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
        """Keeps the figure of one run."""
        self.figures.setdefault(contender, []).append(figure)

    def fail(self, contender: str, reason: str) -> None:
        """Marks a contender's line as failed. Figures that it already has go: they are not of all runs."""
        self.figures.pop(contender, None)
        self.failed[contender] = reason

    def median(self, contender: str) -> float:
        """The middle of its runs."""
        return statistics.median(self.figures[contender])

    def ratio(self, contender: str) -> float | None:
        """Our median by another one's; None where one of them is missing."""
        if contender == OURS or not (self.figures.get(contender) and self.figures.get(OURS)):
            return None
        return self.median(OURS) / self.median(contender)

    def verdict(self, contender: str) -> bool | None:
        """Whether the aim is met; None where there is none, or no figure."""
        aim = self.aims.get(contender)
        value = self.ratio(contender)
        if contender == OURS and self.figures.get(OURS):
            value = self.median(OURS)
        return None if aim is None or value is None else aim.is_met(value)

    def contenders(self) -> list[str]:
        """All that were or should have been measured, rmqpull first."""
        names = [*self.figures, *self.failed, *self.not_run, *self.aims]
        return sorted(dict.fromkeys(names), key=lambda name: name != OURS)

    def as_json(self) -> dict[str, Any]:
        """All that was measured, run by run, and what follows from it."""
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
    """What went wrong, in one line of bounded length."""
    first_line = next(iter(str(error).strip().splitlines()), "").rstrip(".")
    return f"{type(error).__name__}: {first_line}"[:REASON_LENGTH_MAX]


@contextmanager
def contain_failure(contender: str, *comparisons: Comparison) -> Iterator[None]:
    """Marks the contender as failed in ``comparisons`` when the block raises. The other contenders go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 (whatever it is: the other figures of a long run are worth keeping)
        for comparison in comparisons:
            comparison.fail(contender, reason_of(error))


def measure(
    comparison: Comparison, contenders: Mapping[str, Callable[[], float]], runs: int, warm_ups: int = 1
) -> Comparison:
    """Measures each contender in turn, so that a machine that slows down slows them all; the first rounds warm up.

    A contender that fails is not measured again, and has no figure.
    """
    for number in range(warm_ups + runs):
        for name, work in contenders.items():
            if name in comparison.failed:
                continue
            with contain_failure(name, comparison):
                figure = work()
                if number >= warm_ups:
                    comparison.add(name, figure)
    return comparison


def document(comparisons: list[Comparison], machine: Mapping[str, str], asked: Mapping[str, Any]) -> dict[str, Any]:
    """A whole run in JSON."""
    return {
        "format": FORMAT,
        "machine": dict(machine),
        "asked": dict(asked),
        "comparisons": [comparison.as_json() for comparison in comparisons],
    }


def comparisons_of(kept: Mapping[str, Any]) -> list[Comparison]:
    """The comparisons of a run that was kept. Raises ValueError when it is none, naming what is wrong."""
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
