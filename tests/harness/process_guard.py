"""Refuses processes in tests without the marker ``processes``, so that ``make test-fast`` can leave out the others.

A test that starts a process, Spark included, carries the marker, or uses a fixture that depends on
``processes_allowed``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

MARKER = "processes"
FIXTURE = "processes_allowed"
# What Python's audit hooks call the ways to start a process.
STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system", "os.exec"})


class ProcessGuard:
    """A pytest plugin that guards each test and its fixtures."""

    def __init__(self) -> None:
        self._guarded: str | None = None

    def pytest_configure(self, config: pytest.Config) -> None:
        """Installs the hook, which stays until the interpreter ends."""
        sys.addaudithook(self._refuse)

    def pytest_collection_modifyitems(self, items: Sequence[pytest.Item]) -> None:
        """Marks tests by their fixtures."""
        for item in items:
            if FIXTURE in getattr(item, "fixturenames", ()):
                item.add_marker(MARKER)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._guarded = None if item.get_closest_marker(MARKER) else item.nodeid
        try:
            return (yield)
        finally:
            self._guarded = None

    def _refuse(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in STARTS and self._guarded is not None:
            raise RuntimeError(
                f"{self._guarded} starts a process ({event} {arguments[:2]}) without the marker {MARKER!r}. Mark the "
                f"test with @pytest.mark.{MARKER}, or let the fixture that starts the process depend on {FIXTURE}."
            )
