"""A tiny run of the suite on a real Apache RocketMQ."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.apache_reading import ALONE, JAVA, RESPONSES
from bench.apache_writing import JAVA as JAVA_WRITE
from bench.comparison import KAFKA, OURS, comparisons_of
from bench.costs import costs_of
from processes.apache.releases import RELEASE_5, Release


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_a_tiny_run_on_apache_measures_spark_java_and_the_broker_alone(apache_release: Release, tmp_path: Path) -> None:
    if apache_release != RELEASE_5:
        pytest.skip(f"benchmarks run RocketMQ {RELEASE_5.server} only")
    file = tmp_path / "figures.json"
    sizes = ["--rows", "16000", "--written-rows", "1600", "--runs", "1"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # the lock of benchmarks is a file there
    environment.pop("JDK_JAVA_OPTIONS", None)  # another garbage collector for short tests
    done = subprocess.run(
        [sys.executable, "-m", "bench.suite", "--apache", "--quick", "--without-kafka", *sizes, "--json", str(file)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    kept = json.loads(file.read_text(encoding="utf-8"))
    comparisons = {comparison.name: comparison for comparison in comparisons_of(kept)}
    reads = {"apache-stream-default-row", "apache-stream-body"}
    raised = {f"{name}-{size}" for name in reads for size in (512, 1_024)}
    assert comparisons.keys() == {*reads, *raised, "apache-write", "apache-write-cost"}
    for name in reads:
        assert comparisons[name].figures.keys() == {OURS, JAVA, RESPONSES, ALONE}
        assert comparisons[name].not_run == {KAFKA: "it was left out"}
    for name in raised:
        assert comparisons[name].figures.keys() == {OURS, JAVA, RESPONSES}
    assert comparisons["apache-write"].figures.keys() == {OURS, JAVA_WRITE}
    assert all(min(figures) > 0 for one in comparisons.values() for figures in one.figures.values())
    costs = {costs.title: costs for costs in costs_of(kept)}
    assert costs["read, 32 messages per pull"].medians(f"{OURS}, default row")["broker"] > 0
    assert costs["batch write"].medians(JAVA_WRITE)["client"] > 0
