"""Without Apache's jars, its tests are skipped loudly, or fail when they were asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from processes.java import find_java

ROOT = Path(__file__).parents[1]
NEEDS_APACHE = "tests/processes/apache/test_oracle.py::test_ids_and_hashes"
NEEDS_CLIENTS = "tests/clients/test_producers.py::test_a_message_is_read_as_it_was_sent"


@pytest.mark.processes
@pytest.mark.parametrize(
    ("arguments", "exit_code", "shown"),
    [
        ((), 0, "! Apache RocketMQ was not tested !"),
        (("--apache-version", "5.5"), 1, "A real Apache RocketMQ is needed: Maven is not installed"),
    ],
)
@pytest.mark.parametrize(("mark", "test"), [("apache", NEEDS_APACHE), ("clients", NEEDS_CLIENTS)])
def test_a_missing_apache_is_said(
    tmp_path: Path, mark: str, test: str, arguments: tuple[str, ...], exit_code: int, shown: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(find_java())
    environment = {**os.environ, "PATH": str(tmp_path / "bin"), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "0", "-m", mark, test]
    run = subprocess.run(
        [*command, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert (run.returncode, shown in run.stdout) == (exit_code, True), run.stdout
