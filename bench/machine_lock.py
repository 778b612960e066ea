"""A lock for the whole machine: benchmarks do not run beside each other or beside a soak, which would spoil their
figures.

Soaks may run side by side: they share the lock. A process keeps the lock until it ends.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

import click


def measure_alone() -> None:
    """Locks out soaks and other benchmarks. Raises click.ClickException if one of them is running."""
    _take(fcntl.LOCK_EX, "A soak or another benchmark is running on this machine")


def keep_benchmarks_away() -> None:
    """Locks out benchmarks, but not other soaks. Raises click.ClickException if a benchmark is running."""
    _take(fcntl.LOCK_SH, "A benchmark is running on this machine, and a soak would spoil its figures")


def _take(mode: int, who_is_there: str) -> None:
    path = Path(tempfile.gettempdir()) / "rmqpull-benchmark.lock"
    # In a folder like /tmp, another user's file can only be opened without O_CREAT.
    lock = os.open(path, os.O_RDONLY | (0 if path.exists() else os.O_CREAT), 0o644)
    try:
        fcntl.flock(lock, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise click.ClickException(f"{who_is_there}. Wait until it ends: `fuser {path}` names the process.") from None
