"""The processor time of this process's descendants, by kind of process."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from processes.process_table import Process, list_descendants, read_command_line
from processes.spark import JVM, SOURCE, WORKER, kind_of

BROKER = "broker"
KINDS = (BROKER, WORKER, JVM, SOURCE)
ENDED_S_MAX = 5.0
_LOOK_S = 0.02


def spent(known: Mapping[int, str] | None = None) -> dict[str, float]:
    """Returns the processor time so far of each kind of process, in seconds.

    ``known`` has the kinds of servers and clients by process id. The other processes are a broker of this project, or
    parts of Spark.
    """
    taken: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for pid in list_descendants(os.getpid()):
        process = Process(pid)
        try:
            command_line = read_command_line(pid)
            own_s, ended_s = process.cpu_s(), process.ended_children_cpu_s()
        except OSError:  # it has ended
            continue
        kind = (known or {}).get(pid) or _kind_of(command_line)
        taken[kind] = taken.get(kind, 0.0) + own_s
        taken[SOURCE if kind == JVM else kind] += ended_s  # each query has a driver-side process of its own
    return taken


def wait_for_ended_queries() -> None:
    """Returns when no query has a driver-side Python any more, so that its time counts for this query and not for the
    next one. That takes a moment after the end of a query. Waits for a few seconds at most.
    """
    deadline = time.monotonic() + ENDED_S_MAX
    while time.monotonic() < deadline and any(
        kind_of(read_command_line(pid)) == SOURCE for pid in list_descendants(os.getpid())
    ):
        time.sleep(_LOOK_S)


def _kind_of(command_line: list[str]) -> str:
    if any("rmqpull_broker" in word for word in command_line):
        return BROKER
    return kind_of(command_line) or SOURCE
