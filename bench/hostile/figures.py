"""The figures of a run, what they must not exceed, and their table for the docs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

FORMAT = 1
TIMES_ALONE_MAX = 2.0
P99_MS_MAX = 60.0
GROWN_MB_MAX = 20.0
HEAD = ("attack", "sends", "bounded by", "p50 ms", "p99 ms", "max ms", "broker's cores", "MB more", "lost", "")


@dataclass(frozen=True)
class Measured:
    """One attack. Times are those of a send of the healthy client until its consumer has the message, in ms."""

    name: str
    sends: str
    bounded_by: str
    messages: int = 0
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0
    before_mb: float = 0.0
    during_mb: float = 0.0
    after_mb: float = 0.0
    attacker_cores: float = 0.0
    broker_cores: float = 0.0
    acknowledged: int = 0
    lost: int = 0
    failed: str = ""

    @property
    def grown_mb(self) -> float:
        """What the attack has left in the broker's resident set, in MB."""
        return self.after_mb - self.before_mb


def percentile(values: Sequence[float], percent: int) -> float:
    """Returns the smallest value that ``percent`` of all values do not exceed. Raises IndexError without values."""
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def find_p99_ms_max(alone: Sequence[float]) -> float:
    """Returns the bound of the healthy client's p99, from those of its runs without an attack, in ms."""
    return max(TIMES_ALONE_MAX * median(alone), P99_MS_MAX)


def list_misses(measured: Measured, p99_ms_max: float) -> list[str]:
    """Returns which bounds an attack has broken."""
    misses = [f"failed: {measured.failed}"] if measured.failed else []
    if measured.p99_ms > p99_ms_max:
        misses.append("p99")
    if measured.grown_mb > GROWN_MB_MAX:
        misses.append("memory")
    if measured.lost:
        misses.append("lost messages")
    return misses


def make_document(
    machine: Mapping[str, str], asked: Mapping[str, Any], alone: Sequence[float], attacks: Sequence[Measured]
) -> dict[str, Any]:
    """Returns a run as JSON. ``alone`` has the healthy client's p99 in each run without an attack, in ms."""
    return {
        "format": FORMAT,
        "machine": dict(machine),
        "asked": dict(asked),
        "alone_p99_ms": list(alone),
        "attacks": [asdict(one) for one in attacks],
    }


def rows(alone: Sequence[float], attacks: Sequence[Measured]) -> Iterator[tuple[str, ...]]:
    """Yields a line for each attack."""
    bound = find_p99_ms_max(alone)
    for one in attacks:
        shown = (f"{figure:.1f}" for figure in (one.p50_ms, one.p99_ms, one.max_ms))
        verdict = ", ".join(list_misses(one, bound)) or "met"
        cores, grown = f"{one.broker_cores:.2f}", f"{one.grown_mb:.0f}"
        lost = f"{one.lost} of {one.acknowledged:,}"
        yield (one.name, one.sends, one.bounded_by, *shown, cores, grown, lost, verdict)


def markdown(kept: Mapping[str, Any] | None) -> str:
    """Returns the table for the docs; ``kept`` is the JSON of a run. Raises ValueError if it is not a run."""
    if kept is None:
        return "Not measured yet."
    if kept.get("format") != FORMAT:
        raise ValueError(
            f"The results have format {kept.get('format')!r}; this reads {FORMAT}. Run: make bench-hostile"
        )
    alone, attacks = kept["alone_p99_ms"], [Measured(**entry) for entry in kept["attacks"]]
    lines = [HEAD, ("---",) * len(HEAD), *rows(alone, attacks)]
    table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
    missed = [one.name for one in attacks if list_misses(one, find_p99_ms_max(alone))]
    runs = ", ".join(f"{figure:.1f}" for figure in alone)
    summary = (
        f"Without an attack, the client's p99 is {runs} ms, so its bound is {find_p99_ms_max(alone):.0f} ms. "
        f"{len(attacks) - len(missed)} of {len(attacks)} attacks stay within all bounds"
    )
    summary += f"; the others: {', '.join(missed)}." if missed else "."
    conditions = ", ".join(f"{name} {value}" for name, value in {**kept["machine"], **kept["asked"]}.items())
    return f"{table}\n\n{summary}\n\n{conditions}."
