"""The result of a soak: counts and the verdict, as a line, as JSON and as the page docs/soak.md."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

from soak.rounds import Result
from soak.schedule import SINK, SOURCE

DOCS = Path(__file__).parents[1] / "docs"
PAGE = Path(__file__).with_name("page.md")
JSON_FILES = {SOURCE: "soak.json", SINK: "soak-sink.json"}
_ALL_IS_WELL = "Every acknowledged message is in the output exactly once{}. There was no finding."


@dataclass(kw_only=True)
class Summary(Result):
    """All rounds of a soak so far."""

    seed: int
    what: str = SOURCE
    rounds: int = 0

    def add(self, result: Result) -> None:
        """Counts a round in."""
        self.rounds += 1
        for counted in fields(Result):
            setattr(self, counted.name, getattr(self, counted.name) + getattr(result, counted.name))

    def line(self) -> str:
        """How it stands."""
        return (
            f"{self.rounds} rounds, {self.kills.total()} kills, {self.acknowledged:,} messages acknowledged, "
            f"{self.rows:,} rows in {self.batches:,} batches, {self.seconds:.0f} s, {len(self.findings)} findings"
        )

    def verdict(self) -> str:
        """In a sentence."""
        if self.findings:
            return "\n".join(["NOT as promised:", *self.findings])
        if self.what == SINK:
            return (
                "every acknowledged message is in the output one time, in order; over and above that, at-least-once "
                f"repeated {self.repeated:,}, all to be told by their ids"
            )
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
            **({"repeated_at_least_once": self.repeated} if self.what == SINK else {}),
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
        (DOCS / JSON_FILES[summary.what]).write_text(text, encoding="utf-8")
        documents = [json.loads((DOCS / JSON_FILES[what]).read_text(encoding="utf-8")) for what in (SOURCE, SINK)]
        (DOCS / "soak.md").write_text(page(*documents), encoding="utf-8")


def page(source: dict[str, Any], sink: dict[str, Any]) -> str:
    """docs/soak.md, from what docs/soak.json and docs/soak-sink.json hold."""
    return PAGE.read_text(encoding="utf-8").format(source=_told(source), sink=_told(sink))


def _told(document: dict[str, Any]) -> str:
    machine = document["machine"]
    steps = {**document["kills"], **document["other_steps"]}
    repeated = document.get("repeated_at_least_once")
    but = ", but for those that at-least-once repeated" if repeated else ""
    lines = [
        *([f"- {finding}" for finding in document["findings"]] or [_ALL_IS_WELL.format(but)]),
        "",
        f"Seed {document['seed']}: {document['rounds']} rounds with **{document['kills_in_all']} kills** in "
        f"{document['minutes']} minutes, on {machine['cores']} cores, with Python {machine['python']} and Spark "
        f"{machine['pyspark']}.",
        f"Acknowledged were {document['acknowledged']:,} messages; {document['unacknowledged_attempts']:,} attempts "
        f"were not. The output has {document['rows']:,} rows",
        f"in {document['batches']:,} finished batches"
        + (f", and {repeated:,} more that at-least-once repeated. " if repeated is not None else ". ")
        + f"Spark ended the query {document['query_failures_by_kills_and_faults']} times, of what was killed or "
        "ordered in that round.",
        "",
        "| step | times |",
        "|---|---:|",
        *[f"| {name} | {count:,} |" for name, count in steps.items()],
    ]
    return "\n".join(lines)
