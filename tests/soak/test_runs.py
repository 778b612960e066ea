"""Runs add up: the page sums them, and shows each in a line with its machine and code."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pyspark_rmqpull import __version__
from soak import results
from soak.plan import SINK, SOURCE, Kind
from soak.results import Summary, commit_of_code
from soak.rounds import Result
from soak.runs import JSON_FILES, keep, page, read_runs, write_runs
from tests.harness.waiting import WAIT_S

KILLED, ADDED = Kind.KILL_BROKER.value, Kind.ADD_TOPIC.value


def run(seed: int, kills: int, what: str = SOURCE, **counted: Any) -> dict[str, Any]:
    summary = Summary(seed=seed, what=what, commit="abcdef1234")
    others = Counter({ADDED: 1})
    summary.add(Result(kills=Counter({KILLED: kills}), others=others, acknowledged=1_000, seconds=90, **counted))
    return summary.document()


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    for name in JSON_FILES:
        write_runs(name, [], tmp_path)
    return tmp_path


def test_each_run_is_added_to_those_before_it_and_to_the_page(docs: Path) -> None:
    assert keep(SOURCE, run(1, 700, on_cluster=1, speculative=9, speculative_first=4), docs)
    assert keep(SOURCE, run(2, 800), docs)
    assert [kept["seed"] for kept in read_runs(SOURCE, docs)] == [1, 2]
    assert read_runs(SINK, docs) == []
    told = (docs / "soak.md").read_text(encoding="utf-8")
    assert told == page({SOURCE: read_runs(SOURCE, docs)})
    assert "2 runs with **1,500 kills** in 2 rounds and 3 minutes. 2,000 messages were acknowledged" in told
    assert "1 round ran on the cluster. Spark started 9 speculative attempts there; 4 of them finished" in told
    assert f"| {KILLED} | 1,500 |\n| {ADDED} | 2 |\n" in told
    assert f"| 1 | 0 (1) | 700 | 1,000 | 9 | 1.5 | {__version__} abcdef1234 |" in told
    assert f"| 2 | 0 (0) | 800 | 1,000 | 0 | 1.5 | {__version__} abcdef1234 |" in told
    assert told.rstrip().endswith("No run is listed.")


def test_runs_of_the_sink_tell_what_at_least_once_repeated(docs: Path) -> None:
    keep(SINK, run(1, 3, SINK, repeated=1_200), docs)
    assert "exactly once, except that at-least-once repeated 1,200 rows." in (docs / "soak.md").read_text("utf-8")


@pytest.mark.parametrize(
    "not_kept",
    [run(1, 3, findings=["seed 1 round 0 step 3: lost"]), Summary(seed=1).document()],
    ids=["finding", "empty"],
)
def test_a_run_with_a_finding_or_without_a_round_is_not_kept(docs: Path, not_kept: dict[str, Any]) -> None:
    assert not keep(SOURCE, not_kept, docs)
    assert read_runs(SOURCE, docs) == []


def test_a_run_that_is_deleted_by_hand_disappears_from_the_page() -> None:
    both, one = page({SOURCE: [run(1, 3), run(2, 4)]}), page({SOURCE: [run(2, 4)]})
    assert "**7 kills**" in both
    assert "**4 kills**" in one


@pytest.mark.processes
def test_the_commit_is_marked_when_the_code_was_changed_since(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "REPOSITORY", tmp_path)
    assert commit_of_code() == ""  # no git

    def git(*arguments: str) -> None:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, check=True, timeout=WAIT_S)

    (tmp_path / "soak").mkdir()
    (tmp_path / "soak" / "code.py").touch()
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "x")
    commit = commit_of_code()
    assert len(commit) == 10
    (tmp_path / "soak.md").touch()
    assert commit_of_code() == commit
    (tmp_path / "soak" / "code.py").write_text("1\n")
    assert commit_of_code() == f"{commit}+"
