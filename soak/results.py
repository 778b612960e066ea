"""The result of one run of the soak: counts and the verdict, as a line and as JSON."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.results import machine
from soak.rounds import Result
from soak.schedule import SINK, SOURCE

REPOSITORY = Path(__file__).parents[1]
CODE = ("connector", "broker_emulator", "proto", "soak")
"""What a result depends on; the pages that it is written into are not part of that."""


@dataclass(kw_only=True)
class Summary(Result):
    """All rounds of a run so far. ``commit`` is that of the code when the run began."""

    seed: int
    what: str = SOURCE
    first_round: int = 0
    rounds: int = 0
    commit: str = ""

    def add(self, result: Result) -> None:
        """Counts a round in."""
        self.rounds += 1
        for counted in fields(Result):
            setattr(self, counted.name, getattr(self, counted.name) + getattr(result, counted.name))

    def line(self) -> str:
        """How it stands."""
        return (
            f"{self.rounds} rounds, {self.kills.total()} kills, {self.acknowledged:,} messages acknowledged, "
            f"{self.rows:,} rows in {self.batches:,} batches, {self.speculative:,} speculative attempts, "
            f"{self.seconds:.0f} s, {len(self.findings)} findings"
        )

    def verdict(self) -> str:
        """In a sentence."""
        if self.findings:
            return "\n".join(["FAILED:", *self.findings])
        if self.what == SINK:
            return (
                "every acknowledged message is in the output, in order; at-least-once repeated "
                f"{self.repeated:,} rows, all recognizable by their ids"
            )
        return "exactly once: every acknowledged message is in the output, in order; consumer offsets are at the end"

    def document(self) -> dict[str, Any]:
        """Everything as JSON; nothing in it tells when it was."""
        return {
            "seed": self.seed,
            "first_round": self.first_round,
            "rounds": self.rounds,
            "rounds_on_cluster": self.on_cluster,
            "kills": dict(sorted(self.kills.items())),
            "other_steps": dict(sorted(self.others.items())),
            "speculative_attempts": self.speculative,
            "speculative_attempts_done_first": self.speculative_first,
            "acknowledged": self.acknowledged,
            "unacknowledged_attempts": self.unacknowledged,
            "rows": self.rows,
            **({"repeated_at_least_once": self.repeated} if self.what == SINK else {}),
            "batches": self.batches,
            "query_failures_by_kills_and_faults": self.failures,
            "minutes": round(self.seconds / 60, 1),
            "findings": self.findings,
            "code": {"version": version("rmqpull"), "commit": self.commit},
            "machine": {**machine(), "pyspark": version("pyspark")},
        }


def commit_of_code() -> str:
    """The commit that the code is of, with ``+`` behind it when the code was changed since; empty outside of git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(REPOSITORY), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=10", "HEAD") + "+" * bool(git("status", "--porcelain", "--", *CODE))
    except (OSError, subprocess.CalledProcessError):
        return ""
