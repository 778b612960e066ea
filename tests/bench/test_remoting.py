"""A tiny run of the comparison with Apache's broker: its figures mean nothing, but they are all there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.comparison import OURS, comparisons_of
from bench.costs import costs_of
from bench.remoting_servers import APACHE
from processes.apache.releases import RELEASE_5, Release

TINY = {
    "--runs": 1,
    "--rows": 800,
    "--pushed-rows": 800,
    "--single-sends": 16,
    "--batched-sends": 400,
    "--wake-ups": 3,
    "--starts": 1,
}


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_both_servers_do_every_work_under_javas_clients(apache_release: Release, tmp_path: Path) -> None:
    if apache_release != RELEASE_5:
        pytest.skip(f"benchmarks run RocketMQ {RELEASE_5.server} only")
    file = tmp_path / "figures.json"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # the lock of benchmarks is a file there
    environment.pop("JDK_JAVA_OPTIONS", None)  # another garbage collector for short tests
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bench.remoting",
            "--json",
            str(file),
            *(str(word) for one in TINY.items() for word in one),
        ],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    kept = json.loads(file.read_text(encoding="utf-8"))
    comparisons = {comparison.name: comparison for comparison in comparisons_of(kept)}
    workloads = ("single", "batches", "wake-p50", "wake-p99", "rows", "pushed", "idle", "after")
    of_servers = [f"remoting-{workload}-{flush}" for flush in ("SYNC_FLUSH", "ASYNC_FLUSH") for workload in workloads]
    assert list(comparisons) == [*of_servers, "remoting-start", "remoting-start-java", "remoting-start-beyond"]
    assert all(one.figures.keys() == {OURS, APACHE} for one in comparisons.values())
    aims = {name: [*map(str, one.aims.values())] for name, one in comparisons.items() if one.aims}
    assert aims == {
        "remoting-single-SYNC_FLUSH": [">= 1.00"],
        "remoting-batches-SYNC_FLUSH": [">= 1.00"],
        "remoting-wake-p50-SYNC_FLUSH": ["<= 1.00"],
        "remoting-wake-p99-SYNC_FLUSH": ["<= 1.00"],
        "remoting-rows-SYNC_FLUSH": [">= 1.00"],
        "remoting-idle-SYNC_FLUSH": ["<= 130"],
        "remoting-after-SYNC_FLUSH": ["<= 130"],
        "remoting-start-beyond": ["<= 1.50"],
    }
    assert all(costs.runs.keys() == {OURS, APACHE} for costs in costs_of(kept))
    assert len(costs_of(kept)) == 2 * 5
