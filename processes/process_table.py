"""What Linux says about running processes, read from /proc. A process may end at any moment: then it is not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Fields of /proc/PID/stat after the name of the command. The name is in brackets and may contain anything.
_STATE, _PARENT, _SESSION = 0, 1, 3
_OWN_TICKS, _ENDED_TICKS = slice(11, 13), slice(13, 15)
_DEAD = "ZX"
"""States of a process that has ended and waits for its parent."""


def list_session(session: int) -> list[int]:
    """Returns the ids of the living processes of a session. Without /proc (not Linux) there are none."""
    return [pid for pid in _list_processes() if _is_alive_in(pid, session)]


def list_descendants(pid: int) -> list[int]:
    """Returns the ids of all processes that a process has started, with those that they have started."""
    children = _list_children(pid)
    return [*children, *(later for child in children for later in list_descendants(child))]


def read_parent(pid: int) -> int:
    """Returns the id of the parent, or 0 when the process has ended."""
    with suppress(OSError):
        return int(_read_stat(pid)[_PARENT])
    return 0


def read_command_line(pid: int) -> list[str]:
    """Returns the words of the command line: none while the system replaces the program, and none when it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace").split("\0")[:-1]
    return []


def read_name(pid: int) -> str:
    """Returns the name of the program, or "?" when the process has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return "?"


@dataclass(frozen=True)
class Process:
    """A running process. Its methods raise OSError when it has ended."""

    pid: int

    def resident_mb(self) -> float:
        """Returns the resident set, in megabytes."""
        return self._read_memory("VmRSS") / 1e6

    def peak_resident_bytes(self) -> int:
        """Returns the largest resident set so far."""
        return self._read_memory("VmHWM")

    def cpu_s(self) -> float:
        """Returns the processor time so far, in seconds. Other users of the machine do not change it."""
        return self._read_seconds(_OWN_TICKS)

    def ended_children_cpu_s(self) -> float:
        """Returns the processor time of the children that have ended, and of theirs."""
        return self._read_seconds(_ENDED_TICKS)

    def _read_memory(self, name: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)

    def _read_seconds(self, fields: slice) -> float:
        return sum(map(int, _read_stat(self.pid)[fields])) / os.sysconf("SC_CLK_TCK")


def _list_processes() -> Iterator[int]:
    return (int(folder.name) for folder in Path("/proc").glob("[0-9]*"))


def _list_children(pid: int) -> list[int]:
    """Returns the children of all threads."""
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text(encoding="ascii").split())
    return found


def _is_alive_in(pid: int, session: int) -> bool:
    with suppress(OSError):
        fields = _read_stat(pid)
        return int(fields[_SESSION]) == session and fields[_STATE] not in _DEAD
    return False


def _read_stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
