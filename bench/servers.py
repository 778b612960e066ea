"""Servers as processes of their own, and what they take of the machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rmqpull_broker.testing import BrokerProcess, Topics

BARE = "bench.bare"
_OWN_TICKS, _ENDED_TICKS = slice(11, 13), slice(13, 15)
"""Places in /proc/PID/stat behind the command's name, of user and system mode."""


@dataclass(frozen=True)
class Process:
    """Something that runs, and what it takes."""

    pid: int

    def resident_mb(self) -> float:
        """Its resident set, in megabytes."""
        status = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        kilobytes = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")), "0")
        return int(kilobytes) * 1024 / 1e6

    def cpu_s(self) -> float:
        """Seconds of a core that it has taken so far: what does not change when others use the machine too."""
        return self._seconds(_OWN_TICKS)

    def ended_children_cpu_s(self) -> float:
        """The same of those of its children that have ended, and of theirs."""
        return self._seconds(_ENDED_TICKS)

    def _seconds(self, places: slice) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return sum(map(int, fields[places])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Server(Process):
    """A server that said it was ready."""

    endpoints: str
    ready_s: float


@contextmanager
def broker(data_dir: Path | None = None, topics: Topics | None = None, *flags: str) -> Iterator[Server]:
    """A broker that serves until the block ends."""
    with BrokerProcess(topics, data_dir=data_dir, arguments=flags) as process:
        yield Server(process.pid, process.endpoints, process.ready_s)


@contextmanager
def peer_server(module: str) -> Iterator[Server]:
    """What the broker is compared with: a program that prints the same ready line, and serves until the block ends."""
    with BrokerProcess(command=[sys.executable, "-m", module]) as process:
        yield Server(process.pid, process.endpoints, process.ready_s)
