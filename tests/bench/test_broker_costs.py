"""A tiny run of the broker's benchmark: its figures mean nothing, but they are all there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TINY = (
    "--messages",
    "16",
    "--rows",
    "2000",
    "--parked",
    "3",
    "--wake-ups",
    "3",
    "--topic-sizes",
    "20,10100",
    "--runs",
    "1",
)


@pytest.mark.processes
def test_every_figure_is_measured_with_its_aim(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    done = subprocess.run(
        [sys.executable, "-m", "bench.broker_costs", *TINY, "--json", str(file)],
        # The lock of benchmarks is a file there. gRPC may log that a server has ended.
        env={**os.environ, "TMPDIR": str(tmp_path), "GRPC_VERBOSITY": "ERROR"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(file.read_text(encoding="utf-8"))
    workloads = {result["work"]: result for result in document["results"]}
    assert all(workload in done.stdout for workload in workloads)
    assert {workload: result["aim"] for workload, result in workloads.items() if result["aim"]} == {
        "start to ready": "<= 0.70",
        "resident set when ready": "<= 100",
        "columnar pull, body": ">= 1,500,000",
        "columnar pull, every column": ">= 1,500,000",
        "send to wake-up, 1 parked, p99": "<= 20.00",
        "resident set with 3 parked pulls": "<= 300",
        "send to wake-up, 3 parked, p99": "<= 20.00",
        "memory of 3 parked pulls, remoting": "<= 1.00 of peer",
        "SIGTERM to exit, 3 parked": "<= 2.00",
        "newest 10,000 of 10,100": ">= 0.90 and <= 1.10 of peer",
        "resident set after all of 10,100 were read": "<= 500",
        "recovery from the commit log alone, published in columns": "<= 5.00",
        "recovery from the commit log alone, sent": "<= 5.00",
        "resident set of 320 delayed messages, in memory": "<= 0.06",
        "resident set of 320 delayed messages, on disk": "<= 0.06",
    }
    assert document["machine"].keys() >= {"cores", "memory", "python", "grpcio", "pyarrow"}
    # An empty start is subtracted from recoveries, and ordinary messages from delayed ones: nothing may be left.
    may_be_nothing = ("recovery", "time", "delayed")
    assert all(
        min(result["figures"]) > 0
        for workload, result in workloads.items()
        if not any(word in workload for word in may_be_nothing)
    )
