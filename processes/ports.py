"""Ports for servers that must be given their ports, need neighbouring ones, or restart on the same ones."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from types import TracebackType

_LOWEST, _STEP = 15_000, 10
_RANGE_FILE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_TRIES_MAX = 500


class PortsTaken(Exception):
    """No free ports were found."""


class ReservedPorts:
    """Ten ports in a row on the loopback interface that no other holder of reserved ports gets, in any process.

    They are below the range from which the system takes ports for connections and for listeners without a fixed port.
    So a server finds them free again after a restart. A lock on a file holds them until :meth:`release`, or until this
    process ends. Raises PortsTaken.
    """

    def __init__(self) -> None:
        folder = Path(tempfile.gettempdir()) / f"rmqpull-ports-{os.getuid()}"
        folder.mkdir(exist_ok=True)
        for _ in range(_TRIES_MAX):
            # Random: otherwise all processes would try the same ports, one after the other.
            first = random.randrange(_LOWEST, _find_end() - _STEP, _STEP)
            self._lock = (folder / str(first)).open("w")
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                continue
            if _are_free(first):
                self.first = first
                return
            self._lock.close()
        raise PortsTaken(f"No {_STEP} free ports in a row were found between {_LOWEST} and {_find_end()}.")

    def release(self) -> None:
        """Releases the ports for others."""
        self._lock.close()

    def __enter__(self) -> ReservedPorts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _find_end() -> int:
    """Returns the first port that the system gives away by itself."""
    try:
        return max(int(_RANGE_FILE.read_text(encoding="ascii").split()[0]), _LOWEST + 1000)
    except (OSError, ValueError):
        return 32_768


def _are_free(first: int) -> bool:
    for port in range(first, first + _STEP):
        with socket.socket() as listener:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("", port))
            except OSError:
                return False
    return True
