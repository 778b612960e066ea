"""The result of a soak: counts and verdict, as a line and as JSON."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.results import machine
from pyspark_rmqpull import __version__
from soak.apache_server import choose_release
from soak.plan import PROXY, RMQPULL_BROKER, SINK, SOURCE
from soak.rounds import Result

REPOSITORY = Path(__file__).parents[1]
CODE = ("connector", "broker_emulator", "proto", "processes", "soak")
"""The folders that a result depends on. The pages with results are not among them."""


@dataclass(kw_only=True)
class Summary(Result):
    """All rounds of a run so far. ``commit`` is the commit of the code at the start."""

    seed: int
    what: str = SOURCE
    server: str = RMQPULL_BROKER
    first_round: int = 0
    rounds: int = 0
    commit: str = ""

    def add(self, result: Result) -> None:
        """Adds the result of a round."""
        self.rounds += 1
        for counted in fields(Result):
            setattr(self, counted.name, getattr(self, counted.name) + getattr(result, counted.name))

    def line(self) -> str:
        """Returns the counts so far."""
        return (
            f"{self.rounds} rounds, {self.kills.total()} kills, {self.acknowledged:,} messages acknowledged, "
            f"{self.rows:,} rows in {self.batches:,} batches, {self.speculative:,} speculative attempts, "
            f"{self.seconds:.0f} s, {len(self.findings)} findings"
        )

    def verdict(self) -> str:
        """Returns the verdict in a sentence."""
        if self.findings:
            return "\n".join(["FAILED:", *self.findings])
        if self.what == SINK:
            return (
                "every acknowledged message is in the output, in order; at-least-once repeated "
                f"{self.repeated:,} rows, all recognizable by their ids"
            )
        return "exactly once: every acknowledged message is in the output, in order; consumer offsets are at the end"

    def document(self) -> dict[str, Any]:
        """Returns everything as JSON. Nothing in it depends on the time of the run."""
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
            **({} if self.server == RMQPULL_BROKER else {"server": name_server(self.server)}),
            **({"repeated_at_least_once": self.repeated} if self.what == SINK else {}),
            "batches": self.batches,
            "query_failures_by_kills_and_faults": self.failures,
            "minutes": round(self.seconds / 60, 1),
            "findings": self.findings,
            "code": {"version": __version__, "commit": self.commit},
            "machine": {**machine(), "pyspark": version("pyspark")},
        }


def name_server(server: str) -> str:
    """Returns the name of an Apache server, with its version."""
    return f"Apache RocketMQ {choose_release(server).server}" + " behind two proxies" * (server == PROXY)


def commit_of_code() -> str:
    """Returns the commit of the code, with ``+`` if it was changed since; empty outside of git."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(REPOSITORY), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return git("rev-parse", "--short=10", "HEAD") + "+" * bool(git("status", "--porcelain", "--", *CODE))
    except (OSError, subprocess.CalledProcessError):
        return ""
