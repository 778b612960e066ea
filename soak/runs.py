"""The runs in docs/soak.json and docs/soak-sink.json, and docs/soak.md, which is made of them."""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from soak.plan import KILLS, RMQPULL_BROKER, SINK, SOURCE
from soak.results import REPOSITORY

DOCS = REPOSITORY / "docs"
APACHE_SOURCE, APACHE_SINK = f"{SOURCE}-apache", f"{SINK}-apache"
JSON_FILES = {
    SOURCE: "soak.json",
    SINK: "soak-sink.json",
    APACHE_SOURCE: "soak-apache.json",
    APACHE_SINK: "soak-apache-sink.json",
}
PAGE = Path(__file__).with_name("page.md")

Run = dict[str, Any]
"""What ``soak.results.Summary.document`` returns."""


def keep(what: str, run: Run, docs: Path = DOCS) -> bool:
    """Adds a run to those in docs and writes the page again. Returns whether it was added.

    A run with findings is not added, since findings are to be fixed, and neither is one without a finished round.
    """
    if run["findings"] or not run["rounds"]:
        return False
    with _locked(docs):
        write_runs(what, [*read_runs(what, docs), run], docs)
        write_page(docs)
    return True


def read_runs(what: str, docs: Path = DOCS) -> list[Run]:
    """Returns the runs in docs, the oldest first."""
    runs: list[Run] = json.loads((docs / JSON_FILES[what]).read_text(encoding="utf-8"))["runs"]
    return runs


def write_runs(what: str, runs: Sequence[Run], docs: Path = DOCS) -> None:
    """Replaces the runs in docs."""
    text = json.dumps({"runs": runs}, indent=2, ensure_ascii=False) + "\n"
    (docs / JSON_FILES[what]).write_text(text, encoding="utf-8")


def write_page(docs: Path = DOCS) -> None:
    """Writes soak.md."""
    (docs / "soak.md").write_text(page({name: read_runs(name, docs) for name in JSON_FILES}), encoding="utf-8")


def page(runs: Mapping[str, Sequence[Run]]) -> str:
    """Returns the text of docs/soak.md."""
    told = {name.replace("-", "_"): _told(runs.get(name, ())) for name in JSON_FILES}
    return PAGE.read_text(encoding="utf-8").format(**told)


def name_results(what: str, server: str) -> str:
    """Returns the name of the results that a run belongs to."""
    if server == RMQPULL_BROKER:
        return what
    return APACHE_SINK if what == SINK else APACHE_SOURCE


def _told(runs: Sequence[Run]) -> str:
    if not runs:
        return "No run is listed."
    kills, others = _summed(runs, "kills"), _summed(runs, "other_steps")
    repeated = _sum(runs, "repeated_at_least_once")
    but = f", except that at-least-once repeated {repeated:,} rows" if repeated else ""
    ended = _sum(runs, "query_failures_by_kills_and_faults")
    known = [kind.value for kind in KILLS]
    in_order = sorted(kills.items(), key=lambda kill: known.index(kill[0]) if kill[0] in known else len(known))
    return "\n".join(
        [
            f"Every acknowledged message is in the output exactly once{but}. No listed run has a finding.",
            "",
            f"{_count(len(runs), 'run')} with **{kills.total():,} kills** in {_count(_sum(runs, 'rounds'), 'round')} "
            f"and {sum(run['minutes'] for run in runs):,.0f} minutes. {_sum(runs, 'acknowledged'):,} messages were "
            f"acknowledged, {_sum(runs, 'unacknowledged_attempts'):,} sends were not. The output has "
            f"{_sum(runs, 'rows'):,} rows in {_sum(runs, 'batches'):,} finished micro-batches. Kills and faults "
            f"ended the query {_count(ended, 'time')}.",
            "",
            f"{_count(_sum(runs, 'rounds_on_cluster'), 'round')} ran on the cluster. Spark started "
            f"{_count(_sum(runs, 'speculative_attempts'), 'speculative attempt')} there; "
            f"{_sum(runs, 'speculative_attempts_done_first'):,} of them finished before the first attempt.",
            "",
            "| step | times |",
            "|---|---:|",
            *(f"| {name} | {count:,} |" for name, count in [*in_order, *sorted(others.items())]),
            "",
            "| seed | rounds (on the cluster) | kills | messages | speculative attempts | minutes | code | machine |",
            "|---:|---:|---:|---:|---:|---:|---|---|",
            *(_row(run) for run in runs),
        ]
    )


def _row(run: Run) -> str:
    first, rounds, machine = run["first_round"], run["rounds"], run["machine"]
    numbers = str(first) if rounds == 1 else f"{first} to {first + rounds - 1}"
    cells = [
        str(run["seed"]),
        f"{numbers} ({run['rounds_on_cluster']})",
        f"{sum(run['kills'].values()):,}",
        f"{run['acknowledged']:,}",
        f"{run['speculative_attempts']:,}",
        f"{run['minutes']:.1f}",
        " ".join(filter(None, (run["code"]["version"], run["code"]["commit"]))),
        f"{machine['cores']} cores, {machine['memory']}, Python {machine['python']}, Spark {machine['pyspark']}"
        + (f", {run['server']}" if "server" in run else ""),
    ]
    return f"| {' | '.join(cells)} |"


def _summed(runs: Sequence[Run], counts: str) -> Counter[str]:
    return sum((Counter(run[counts]) for run in runs), Counter())


def _sum(runs: Sequence[Run], name: str) -> int:
    return sum(run.get(name, 0) for run in runs)


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + "s" * (count != 1)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Makes soaks that run side by side in one checkout add their results one after the other."""
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
