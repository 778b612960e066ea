"""The figures of the planning of micro-batches, the limit of what witnesses may cost, and their table for the docs."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.hostile.figures import percentile

FORMAT = 1
LIMIT_MS = 5.0
"""By how much witnesses may raise the p50."""
HEAD = (
    "workload",
    "server",
    "p50 ms",
    "p90 ms",
    "p50 ms without witnesses",
    "p90 ms without witnesses",
    "new witnesses",
    "p50 slower by, ms",
    "limit",
    "",
)


@dataclass(frozen=True)
class Planned:
    """One workload on one server, with witnesses and without. Times are in ms.

    ``new_witnesses`` is the median of those that a micro-batch has recorded. ``limit_ms`` is None where none applies.
    """

    workload: str
    server: str
    times: int
    p50_ms: float
    p90_ms: float
    p50_without_ms: float
    p90_without_ms: float
    new_witnesses: float
    limit_ms: float | None

    @property
    def slower_ms(self) -> float:
        """By how much witnesses raise the p50, in ms. If it is below 0, they seem to lower it."""
        return self.p50_ms - self.p50_without_ms

    @property
    def verdict(self) -> str:
        """Whether the limit is met, or nothing if there is none."""
        if self.limit_ms is None:
            return ""
        return "met" if self.slower_ms <= self.limit_ms else "missed"


class Times:
    """The times of one workload on one server."""

    def __init__(self) -> None:
        self._took_ms: dict[bool, list[float]] = {True: [], False: []}
        self._new_witnesses: list[int] = []

    def add(self, has_witnesses: bool, took_ms: float) -> None:
        """Adds a time of the reader with witnesses, or of the one without."""
        self._took_ms[has_witnesses].append(took_ms)

    def add_witnesses(self, count: int) -> None:
        """Adds the number of witnesses that a micro-batch has recorded."""
        self._new_witnesses.append(count)

    def summarize(self, workload: str, server: str, limit_ms: float | None) -> Planned:
        """Returns the figures. Raises IndexError without times."""
        ours, without = self._took_ms[True], self._took_ms[False]
        return Planned(
            workload,
            server,
            len(ours),
            p50_ms=round(percentile(ours, 50), 3),
            p90_ms=round(percentile(ours, 90), 3),
            p50_without_ms=round(percentile(without, 50), 3),
            p90_without_ms=round(percentile(without, 90), 3),
            new_witnesses=statistics.median(self._new_witnesses),
            limit_ms=limit_ms,
        )


def make_document(machine: Mapping[str, str], asked: Mapping[str, Any], workloads: Sequence[Planned]) -> dict[str, Any]:
    """Returns a run as JSON."""
    return {
        "format": FORMAT,
        "machine": dict(machine),
        "asked": dict(asked),
        "works": [_to_form(one) for one in workloads],
    }


def read_workloads(kept: Mapping[str, Any]) -> list[Planned]:
    """Returns the workloads of a run. Raises ValueError if ``kept`` is not a run."""
    if kept.get("format") != FORMAT:
        raise ValueError(
            f"The results have format {kept.get('format')!r}; this reads {FORMAT}. Run: make bench-planning"
        )
    return [_of_form(one) for one in kept["works"]]


def _to_form(one: Planned) -> dict[str, Any]:
    """Returns the figures in the JSON form of stored runs, in which the workload is called ``work``."""
    figures = asdict(one)
    return {
        "work": figures.pop("workload"),
        **figures,
        "slower_ms": round(one.slower_ms, 3),
        "verdict": one.verdict,
    }


def _of_form(form: Mapping[str, Any]) -> Planned:
    others = ("work", "slower_ms", "verdict")
    return Planned(form["work"], **{name: value for name, value in form.items() if name not in others})


def rows(workloads: Sequence[Planned]) -> Iterator[tuple[str, ...]]:
    """Yields a line for each workload and server. The servers of a workload stand together."""
    for title in dict.fromkeys(one.workload for one in workloads):
        shown = title
        for one in (one for one in workloads if one.workload == title):
            with_and_without = (one.p50_ms, one.p90_ms, one.p50_without_ms, one.p90_without_ms)
            figures = [f"{figure:.2f}" for figure in with_and_without]
            limit = "" if one.limit_ms is None else f"<= {one.limit_ms:.2f}"
            witnesses = f"{one.new_witnesses:.0f}"
            yield (shown, one.server, *figures, witnesses, f"{one.slower_ms:.2f}", limit, one.verdict)
            shown = ""


def markdown(kept: Mapping[str, Any] | None) -> str:
    """Returns the table for the docs; ``kept`` is the JSON of a run. Raises ValueError if it is not a run."""
    if kept is None:
        return "Not measured yet."
    lines = [HEAD, ("---",) * len(HEAD), *rows(read_workloads(kept))]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    conditions = ", ".join(f"{name} {_plain(value)}" for name, value in {**kept["machine"], **kept["asked"]}.items())
    return f"{table}\n\n{conditions}."


def _plain(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
