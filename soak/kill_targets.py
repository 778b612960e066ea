"""Finds the processes of a Spark job that a soak kills, and the errors of the connector in its log."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from processes.process_table import list_session, read_command_line
from processes.spark import SOURCE, kind_of, pick_workers

Find = Callable[[int], list[int]]
"""Finds processes in a session."""

_ERROR_CLASSES = ("pyspark_rmqpull.", "rmqpull_client.")
"""How the last line of a traceback begins if the error is one of the connector's."""
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


def find_workers(session: int) -> list[int]:
    """Returns the Python workers."""
    return pick_workers(list_session(session))


def find_sources(session: int) -> list[int]:
    """Returns the driver's Python processes of sources."""
    return [pid for pid in list_session(session) if kind_of(read_command_line(pid)) == SOURCE]


def find_executors(session: int) -> list[int]:
    """Returns the JVMs of executors, in the session of a cluster's worker."""
    return [pid for pid in list_session(session) if _EXECUTOR in read_command_line(pid)]


def kill_newest(pids: list[int]) -> bool:
    """Sends SIGKILL to the newest of these processes. Returns whether there was one."""
    for pid in sorted(pids, reverse=True):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            return True
    return False


def read_connector_errors(log: Path) -> set[str]:
    """Returns the errors of the connector that Spark has logged."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return {line.strip() for line in lines if line.startswith(_ERROR_CLASSES)}
