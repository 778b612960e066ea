"""Which processes of a Spark job are what, by their command lines, and what they logged when they failed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from demo.processes import session_members

Candidates = Callable[[int], list[int]]
"""From a session to processes in it."""

DAEMON = "pyspark.daemon"
EXECUTOR = "CoarseGrainedExecutorBackend"
SOURCE = "python_streaming_source_runner"


def workers(session: int) -> list[int]:
    """The Python workers: what a worker daemon has forked."""
    daemons = [pid for pid in session_members(session) if DAEMON in _command(pid)]
    return [pid for pid in daemons if _parent(pid) in daemons]


def sources(session: int) -> list[int]:
    """The Python processes in which the driver asks sources."""
    return [pid for pid in session_members(session) if SOURCE in _command(pid)]


def executors(session: int) -> list[int]:
    """The executors' JVMs of a worker of a cluster."""
    return [pid for pid in session_members(session) if EXECUTOR in _command(pid)]


def kill_one(pids: list[int]) -> bool:
    """SIGKILL to the youngest of these processes; whether there was one."""
    for pid in sorted(pids, reverse=True):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def connector_errors(log: Path) -> set[str]:
    """What the connector has raised, by what Spark logged of it."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return {line.strip() for line in lines if line.startswith("pyspark_rmqpull.")}


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def _parent(pid: int) -> int:
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[1])
    return 0
