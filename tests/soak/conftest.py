"""The soak is a package beside the others, found where the repository is; it shares the demo's folder of scripts."""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "demo")]

from processes import Children, Signals  # noqa: E402 (found by the path)


@pytest.fixture
def children(processes_allowed: None) -> Iterator[Children]:
    """Processes that end with the test; the handlers of this process are as before."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    with Children(Signals(), os.environ) as children:
        yield children
    for number, handler in before.items():
        signal.signal(number, handler)
