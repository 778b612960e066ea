"""A tiny run of the measurement of the command line: its figures mean nothing, but they are all there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.comparison import OURS, comparisons_of
from bench.costs import costs_of
from bench.shell import ALONE, JAVA, MQADMIN, ONE
from processes.apache.releases import RELEASE_5, Release

TINY = {"--starts": 1, "--runs": 1, "--rows": 4_000}


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_commands_stand_beside_mqadmin_and_exports_beside_readers(apache_release: Release, tmp_path: Path) -> None:
    if apache_release != RELEASE_5:
        pytest.skip(f"benchmarks run RocketMQ {RELEASE_5.server} only")
    file = tmp_path / "figures.json"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}  # the lock of benchmarks is a file there
    environment.pop("JDK_JAVA_OPTIONS", None)  # another garbage collector for short tests
    sizes = [str(word) for one in TINY.items() for word in one]
    done = subprocess.run(
        [sys.executable, "-m", "bench.shell", "--json", str(file), *sizes],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    kept = json.loads(file.read_text(encoding="utf-8"))
    *starts, export = comparisons_of(kept)
    names = [name for start in ("topics", "lag", "help") for name in (f"shell-{start}", f"shell-{start}-cpu")]
    assert [comparison.name for comparison in starts] == names
    assert all(
        {name: len(figures) for name, figures in comparison.figures.items()} == {OURS: 1, MQADMIN: 1}
        for comparison in starts
    )
    assert export.figures.keys() == {OURS, ONE, ALONE, JAVA}
    assert [costs.runs.keys() for costs in costs_of(kept)] == [export.figures.keys()]
