"""A tiny run of the comparison with Apache's proxy: its figures mean nothing, but they are all there."""

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
    "--messages": 64,
    "--shared-messages": 256,
    "--wake-ups": 3,
    "--waiting": 64,
    "--in-flight": 64,
}


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_both_servers_do_every_work_under_javas_client(apache_release: Release, tmp_path: Path) -> None:
    if apache_release != RELEASE_5:
        pytest.skip(f"benchmarks run RocketMQ {RELEASE_5.server} only")
    file = tmp_path / "figures.json"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # the lock of benchmarks is a file there
    environment.pop("JDK_JAVA_OPTIONS", None)  # another garbage collector for short tests
    words = [str(word) for one in TINY.items() for word in one]
    done = subprocess.run(
        [sys.executable, "-m", "bench.grpc_clients", "--json", str(file), *words],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    kept = json.loads(file.read_text(encoding="utf-8"))
    comparisons = {comparison.name: comparison for comparison in comparisons_of(kept)}
    of_both = ["grpc-consume-1", "grpc-consume-8", "grpc-wake-p99", "grpc-wake-p50"]
    assert list(comparisons) == [*of_both, "grpc-waiting", "grpc-in-flight"]
    assert all(comparisons[name].figures.keys() == {OURS, APACHE} for name in of_both)
    aims = {name: [*map(str, one.aims.values())] for name, one in comparisons.items() if one.aims}
    assert aims == {"grpc-consume-1": [">= 1.00"], "grpc-consume-8": [">= 1.00"], "grpc-wake-p99": ["<= 0.50"]}
    assert all(costs.runs.keys() == {OURS, APACHE} for costs in costs_of(kept))
