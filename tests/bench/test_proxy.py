"""A tiny run of the reads through Apache's proxy: its figures mean nothing, but they are all there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.comparison import OURS, comparisons_of
from bench.proxy import BROKER, JAVA
from processes.apache.releases import RELEASE_5, Release

TINY = {"--runs": 1, "--rows": 4_000, "--java-rows": 4_000}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_all_contenders_read_many_queues_and_one(apache_release: Release, tmp_path: Path) -> None:
    if apache_release != RELEASE_5:
        pytest.skip(f"benchmarks run RocketMQ {RELEASE_5.server} only")
    file = tmp_path / "figures.json"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # the lock of benchmarks is a file there
    environment.pop("JDK_JAVA_OPTIONS", None)  # another garbage collector for short tests
    sizes = [str(word) for one in TINY.items() for word in one]
    done = subprocess.run(
        [sys.executable, "-m", "bench.proxy", "--json", str(file), *sizes],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    comparisons = comparisons_of(json.loads(file.read_text(encoding="utf-8")))
    assert [comparison.name for comparison in comparisons] == ["proxy-8", "proxy-1"]
    assert all(comparison.figures.keys() == {OURS, BROKER, JAVA} for comparison in comparisons)
