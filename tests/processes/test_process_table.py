"""What /proc says of processes, and of processes that have ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from processes.process_table import Process, list_descendants, list_session, read_command_line, read_name, read_parent


@pytest.mark.processes
def test_processes_that_a_process_started_are_found_and_one_that_has_ended_has_none() -> None:
    with subprocess.Popen(["sh", "-c", "sleep 60 & echo $!; wait"], stdout=subprocess.PIPE, text=True) as shell:
        assert shell.stdout is not None
        sleeper = int(shell.stdout.readline())
        assert shell.pid in list_descendants(os.getpid())
        assert list_descendants(shell.pid) == [sleeper]
        os.kill(sleeper, signal.SIGTERM)
    assert list_descendants(shell.pid) == []


@pytest.mark.processes
def test_a_process_that_has_ended_is_not_there() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert (read_parent(child.pid), read_command_line(child.pid)[1]) == (os.getpid(), "-c")
        assert 0 < Process(child.pid).resident_mb() <= Process(child.pid).peak_resident_bytes() / 1e6
        assert child.stdin is not None
        child.stdin.close()
    assert (read_parent(child.pid), read_command_line(child.pid), read_name(child.pid)) == (0, [], "?")
    assert list_session(child.pid) == []
    with pytest.raises(OSError, match="No such file"):
        Process(child.pid).cpu_s()
