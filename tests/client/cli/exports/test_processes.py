"""The processes of an export end with the command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = """
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from threading import Event
from rmqpull_client.cli.exports.processes import prepare_process

if __name__ == "__main__":
    pool = ProcessPoolExecutor(1, get_context("spawn"), prepare_process)
    assert pool.submit(int).result() == 0
    print("ready", flush=True)
    Event().wait()
"""


@pytest.mark.processes
def test_a_process_ends_when_the_command_is_killed(tmp_path: Path) -> None:
    (tmp_path / "command.py").write_text(COMMAND)
    with subprocess.Popen([sys.executable, tmp_path / "command.py"], stdout=subprocess.PIPE) as command:
        assert command.stdout is not None
        assert command.stdout.readline() == b"ready\n"
        command.kill()
        # The process has the pipe too: it ends when both have ended.
        assert command.communicate(timeout=60)[0] == b""
