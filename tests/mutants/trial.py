"""Runs tests on a module with a change, in a process that has everything else loaded already."""

from __future__ import annotations

import importlib.machinery
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import CodeType

import pytest

REPOSITORY = Path(__file__).parents[2]
# Whoever imports them in each process waits for a second. Nothing of the project may be loaded before a change.
_LOADED_ONCE = ("hypothesis", "pyarrow.compute", "grpc.aio", "google.protobuf.message", "pyspark.sql.datasource")
_LOOK_S = 0.02


def load_once() -> None:
    """Imports what all trials need."""
    for name in _LOADED_ONCE:
        __import__(name)


class Trial:
    """A process that runs tests on a changed module. It ends with the first failure, or by its time limit."""

    def __init__(self, module: Path, code: CodeType | None, tests: Sequence[str], limit_s: float, log: Path) -> None:
        self._began = time.monotonic()
        self._limit_s = limit_s
        self._pid = os.fork()
        if self._pid == 0:
            _run_tests(module, code, tests, log)

    @property
    def passed_s(self) -> float:
        """How long it has run."""
        return time.monotonic() - self._began

    def find_result(self) -> int | None:
        """Returns pytest's exit code, -1 when the time limit ended the tests, or None while they run."""
        ended, status = os.waitpid(self._pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if self.passed_s > self._limit_s:
            self.end()
            return -1
        return None

    def finish(self) -> int:
        """Returns the result, at the latest when the time is over."""
        while (result := self.find_result()) is None:
            time.sleep(_LOOK_S)
        return result

    def end(self) -> None:
        """Kills the process, and what it has started."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def _run_tests(module: Path, code: CodeType | None, tests: Sequence[str], log: Path) -> None:
    """Replaces this process's view of a module, runs pytest, and ends the process."""
    result = 3
    try:
        os.setpgid(0, 0)
        with log.open("wb") as output:
            os.dup2(output.fileno(), 1)
            os.dup2(output.fileno(), 2)
        if code is not None:
            _put_code(module, code)
        arguments = [
            "-x",
            "-q",
            "--assert=plain",
            "--hypothesis-profile",
            "fast",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        result = int(
            pytest.main([*arguments, "-m", "not processes and not large and not apache and not clients", *tests])
        )
        sys.stdout.flush()
    finally:
        os._exit(result)


def _put_code(module: Path, code: CodeType) -> None:
    """Lets imports find this code for a module. The editable install has links to it, so the paths differ."""
    loader = importlib.machinery.SourceFileLoader
    find_code = loader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str) -> CodeType | None:
        path = self.get_filename(fullname)
        if os.path.basename(path) == module.name and os.path.samefile(path, module):
            return code
        return find_code(self, fullname)

    loader.get_code = get_code  # type: ignore[assignment, method-assign]
