"""The result of a soak: counts and the verdict, as a line, as JSON and as the page docs/soak.md."""

from __future__ import annotations

import json
import os
import platform
from collections import Counter
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from soak.rounds import Result

DOCS = Path(__file__).parents[1] / "docs"
PAGE = Path(__file__).with_name("page.md")


@dataclass
class Summary:
    """All rounds of a soak so far."""

    seed: int
    rounds: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    others: Counter[str] = field(default_factory=Counter)
    acknowledged: int = 0
    unacknowledged: int = 0
    rows: int = 0
    batches: int = 0
    failures: int = 0
    seconds: float = 0.0
    findings: list[str] = field(default_factory=list)

    def add(self, result: Result) -> None:
        """Counts a round in."""
        self.rounds += 1
        self.kills += result.kills
        self.others += result.others
        self.acknowledged += result.acknowledged
        self.unacknowledged += result.unacknowledged
        self.rows += result.rows
        self.batches += result.batches
        self.failures += result.failures
        self.seconds += result.seconds
        self.findings += result.findings

    def line(self) -> str:
        """How it stands."""
        return (
            f"{self.rounds} rounds, {self.kills.total()} kills, {self.acknowledged:,} messages acknowledged, "
            f"{self.rows:,} rows in {self.batches:,} batches, {self.seconds:.0f} s, {len(self.findings)} findings"
        )

    def verdict(self) -> str:
        """In a sentence."""
        if self.findings:
            return "\n".join(["NOT exactly once:", *self.findings])
        return (
            "exactly once: every acknowledged message is in the output one time, in order, and groups stand at the end"
        )

    def document(self) -> dict[str, Any]:
        """Everything as JSON; nothing in it tells when it was."""
        return {
            "seed": self.seed,
            "rounds": self.rounds,
            "kills": dict(sorted(self.kills.items())),
            "kills_in_all": self.kills.total(),
            "other_steps": dict(sorted(self.others.items())),
            "acknowledged": self.acknowledged,
            "unacknowledged_attempts": self.unacknowledged,
            "rows": self.rows,
            "batches": self.batches,
            "query_failures_by_kills_and_faults": self.failures,
            "minutes": round(self.seconds / 60, 1),
            "findings": self.findings,
            "machine": {
                "cores": os.cpu_count(),
                "python": platform.python_version(),
                "pyspark": version("pyspark"),
            },
        }


def write(summary: Summary, json_file: Path | None, docs: bool) -> None:
    """Writes the files that were asked for."""
    text = json.dumps(summary.document(), indent=2, ensure_ascii=False) + "\n"
    if json_file is not None:
        json_file.write_text(text, encoding="utf-8")
    if docs:
        (DOCS / "soak.json").write_text(text, encoding="utf-8")
        (DOCS / "soak.md").write_text(page(summary.document()), encoding="utf-8")


def page(document: dict[str, Any]) -> str:
    """docs/soak.md, from what docs/soak.json holds."""
    machine = document["machine"]
    steps = {**document["kills"], **document["other_steps"]}
    table = "\n".join(f"| {name} | {count:,} |" for name, count in steps.items())
    findings = "\n".join(f"- {finding}" for finding in document["findings"])
    verdict = findings or "Every acknowledged message is in the output exactly once. There was no finding."
    return PAGE.read_text(encoding="utf-8").format(
        **document,
        table=table,
        verdict=verdict,
        cores=machine["cores"],
        python=machine["python"],
        spark=machine["pyspark"],
    )
