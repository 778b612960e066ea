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
    program = [sys.executable, "-c", "print('started', flush=True); input()"]
    with subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        # Popen returns before the system has replaced the program of the child, whose command line is empty then.
        assert child.stdout is not None
        assert child.stdout.readline() == b"started\n"
        assert (read_parent(child.pid), read_command_line(child.pid)) == (os.getpid(), program)
        assert 0 < Process(child.pid).resident_mb() <= Process(child.pid).peak_resident_bytes() / 1e6
        assert child.stdin is not None
        child.stdin.write(b"\n")
        child.stdin.close()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert read_command_line(child.pid) == []  # it has ended, and nobody has asked for its exit code
    assert (read_parent(child.pid), read_command_line(child.pid), read_name(child.pid)) == (0, [], "?")
    assert list_session(child.pid) == []
    with pytest.raises(OSError, match="No such file"):
        Process(child.pid).cpu_s()
