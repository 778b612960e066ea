"""A test that waits for ever fails by name, and the processes that it has started end with it."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.waiting import until, wait_until

SETTINGS = Path(__file__).parents[1] / "pyproject.toml"

HANGING = """
import threading
import pytest
from rmqpull_broker.testing import BrokerProcess

@pytest.fixture
def broker():
    with BrokerProcess() as started:
        print("started", started.pid)
        yield started

def test_that_spins(broker):
    while True:
        pass

@pytest.mark.timeout(1)
def test_that_waits_for_a_thread():
    threading.Event().wait()

def test_that_passes():
    pass
"""


@pytest.mark.processes
def test_a_test_that_hangs_is_ended_and_named(tmp_path: Path) -> None:
    """Runs in a process of pytest-xdist, as in ``make test``."""
    (tmp_path / "test_hanging.py").write_text(HANGING, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-c", str(SETTINGS), "--rootdir", str(tmp_path), "-o", "timeout=5"]
    command += ["-p", "no:cacheprovider", "--numprocesses", "1", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    ended = re.findall(r"^FAILED \S*::(\w+) - Failed: Timeout", done.stdout, re.MULTILINE)
    assert sorted(ended) == ["test_that_spins", "test_that_waits_for_a_thread"], done.stdout + done.stderr
    assert "2 failed, 1 passed" in done.stdout
    (broker,) = re.findall(r"^started (\d+)$", done.stdout, re.MULTILINE)
    with pytest.raises(ProcessLookupError):
        os.kill(int(broker), 0)


def test_a_wait_ends_and_says_what_did_not_happen() -> None:
    wait_until(lambda: True, "nothing")
    with pytest.raises(AssertionError, match=r"^not answered within 0\.01 s$"):
        wait_until(lambda: False, "answered", 0.01)
    with pytest.raises(AssertionError, match=r"^not answered within 0\.01 s$"):
        asyncio.run(until(lambda: False, "answered", 0.01))
