"""Short soaks: two rounds of the source, one of them on a cluster, and one of the sink, with kills of every kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from soak.runs import DOCS, page, read_runs
from soak.schedule import CLUSTER_DECK, DECK, KILLS, SINK, SOURCE

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 900
END_S = 60

pytestmark = pytest.mark.timeout(2 * TIMEOUT_S)


def soaked(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Runs a soak and returns its result. Fails if it has findings."""
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", "soak", *arguments, "--json", str(file), "--folder", str(tmp_path / "rounds")]
    env = {**os.environ, "TMPDIR": str(tmp_path)}  # the lock against benchmarks is a file there
    soak = subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env
    )
    try:
        said, _ = soak.communicate(timeout=TIMEOUT_S)
    finally:
        soak.terminate()  # so that it ends its processes; after a kill they would stay
        soak.wait(END_S)
    assert soak.returncode == 0, said
    result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    assert result["findings"] == []
    assert result["acknowledged"] > 0
    assert result["rows"] > 0
    return result


@pytest.mark.processes
def test_every_acknowledged_message_is_in_the_output_exactly_once(tmp_path: Path) -> None:
    """Also acceptance case 39: topics and queues are added while messages are sent, and the query stops and starts."""
    kills = ("--kills", str(2 * len(CLUSTER_DECK)), "--kills-per-round", str(len(CLUSTER_DECK)))
    result = soaked(tmp_path, "--seed", "20", *kills)
    assert (result["rounds"], result["rounds_on_cluster"]) == (2, 1)
    assert result["kills"].keys() == {kind.value for kind in KILLS}


@pytest.mark.processes
def test_the_sink_keeps_the_promise_of_its_delivery(tmp_path: Path) -> None:
    """Exactly once. `make soak` covers the other deliveries, test_query_job_sink_kill.py their kills."""
    kills = ("--kills", str(len(DECK)), "--kills-per-round", str(len(DECK)))
    result = soaked(tmp_path, "--what", "sink", "--seed", "20", *kills)
    assert (result["rounds"], result["rounds_on_cluster"]) == (1, 0)
    assert result["kills"].keys() == {kind.value for kind in DECK}


def test_the_page_in_the_docs_shows_the_results_in_the_docs() -> None:
    assert (DOCS / "soak.md").read_text(encoding="utf-8") == page(read_runs(SOURCE), read_runs(SINK))
