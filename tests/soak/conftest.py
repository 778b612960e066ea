"""Processes that end with the test that started them."""

import os
import signal
from collections.abc import Iterator

import pytest

from demo.processes import Children, Signals


@pytest.fixture
def children(processes_allowed: None) -> Iterator[Children]:
    """Processes that end with the test; the handlers of this process are as before."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    with Children(Signals(), os.environ) as children:
        yield children
    for number, handler in before.items():
        signal.signal(number, handler)
