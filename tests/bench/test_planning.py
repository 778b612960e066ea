"""What witnesses cost: the verdicts and the table, and a tiny run, whose figures mean nothing, but are all there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from bench.planning import SERVERS
from bench.planning_figures import FORMAT, LIMIT_MS, Planned, Times, make_document, markdown, read_workloads, rows

MANY = Planned(
    "planning, 9 queues",
    "Apache",
    times=3,
    p50_ms=12.5,
    p90_ms=20.0,
    p50_without_ms=8.25,
    p90_without_ms=9.0,
    new_witnesses=4,
    limit_ms=LIMIT_MS,
)
TINY = {"--queues": 6, "--rounds": 2, "--single-rounds": 2, "--messages": 2, "--starts": 1}


@pytest.mark.parametrize(
    ("p50_ms", "limit_ms", "verdict"),
    [(13.25, 5.0, "met"), (13.26, 5.0, "missed"), (8.0, 5.0, "met"), (99.0, None, "")],
    ids=["at the limit", "above it", "faster", "no limit"],
)
def test_the_difference_of_the_p50_is_held_against_the_limit(
    p50_ms: float, limit_ms: float | None, verdict: str
) -> None:
    assert replace(MANY, p50_ms=p50_ms, limit_ms=limit_ms).verdict == verdict


def test_percentiles_are_those_of_each_reader() -> None:
    times = Times()
    for number in range(1, 11):
        times.add(True, number * 2.0)
        times.add(False, number * 1.0)
        times.add_witnesses(number)
    found = times.summarize("planning", "Apache", None)
    assert (found.p50_ms, found.p90_ms, found.p50_without_ms, found.p90_without_ms) == (10.0, 18.0, 5.0, 9.0)
    assert (found.times, found.new_witnesses, found.slower_ms) == (10, 5.5, 5.0)


def test_the_servers_of_a_work_stand_together() -> None:
    first = replace(MANY, workload="first", limit_ms=None)
    lines = [*rows([MANY, first, replace(MANY, server="ours", p50_ms=14.0), replace(first, server="ours")])]
    assert lines[:2] == [
        ("planning, 9 queues", "Apache", "12.50", "20.00", "8.25", "9.00", "4", "4.25", "<= 5.00", "met"),
        ("", "ours", "14.00", "20.00", "8.25", "9.00", "4", "5.75", "<= 5.00", "missed"),
    ]
    assert [(line[0], line[1], *line[-2:]) for line in lines[2:]] == [("first", "Apache", "", ""), ("", "ours", "", "")]


def test_a_run_is_read_as_it_was_written_and_the_page_names_its_machine() -> None:
    kept = json.loads(json.dumps(make_document({"cores": "2 of 4"}, {"queues": 1_000}, [MANY])))
    assert read_workloads(kept) == [MANY]
    assert markdown(kept).endswith("| met |\n\ncores 2 of 4, queues 1,000.")


def test_without_a_run_the_page_says_so() -> None:
    assert markdown(None) == "Not measured yet."


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match=f"this reads {FORMAT}"):
        markdown({"format": 0})


@pytest.mark.processes
def test_a_tiny_run_does_every_work_with_and_without_witnesses(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    servers = [word for name in ("columns", "remoting") for word in ("--server", name)]
    sizes = [str(word) for one in TINY.items() for word in one]
    done = subprocess.run(
        [sys.executable, "-m", "bench.planning", *servers, *sizes, "--json", str(file)],
        env={**os.environ, "TMPDIR": str(tmp_path)},  # the lock of benchmarks is a file there
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    workloads = read_workloads(json.loads(file.read_text(encoding="utf-8")))
    titles = [
        "planning, 6 queues",
        "planning, 1 queue",
        "acknowledgement of a send to row in hand, 1 queue",
        "first micro-batch of a new query, 6 queues",
        "first micro-batch after a restart, 6 queues",
    ]
    names = [SERVERS["columns"], SERVERS["remoting"]]
    assert [(one.workload, one.server) for one in workloads] == [(title, name) for name in names for title in titles]
    assert [one.times for one in workloads] == [2, 2, 2, 1, 1] * 2
    assert [one.limit_ms for one in workloads] == [LIMIT_MS, LIMIT_MS, LIMIT_MS, None, None] * 2
    assert all(one.new_witnesses > 0 and min(one.p50_ms, one.p50_without_ms) > 0 for one in workloads)
