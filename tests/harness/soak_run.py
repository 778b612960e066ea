"""A soak as a process, as `make soak` runs it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
TIMEOUT_S = 900
END_S = 60


def run_soak(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Runs a soak and returns its result. Fails if it has findings."""
    return _run("soak", tmp_path, *arguments)


def run_soak_of_commits(tmp_path: Path, *arguments: str) -> dict[str, Any]:
    """Runs a soak of commits, in the same way."""
    return _run("soak.commits", tmp_path, *arguments)


def _run(module: str, tmp_path: Path, *arguments: str) -> dict[str, Any]:
    file = tmp_path / "result.json"
    command = [sys.executable, "-m", module, *arguments, "--json", str(file), "--folder", str(tmp_path / "rounds")]
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
