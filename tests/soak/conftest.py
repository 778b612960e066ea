"""Child processes for tests of the soak."""

import os
from collections.abc import Iterator

import pytest

from processes.children import Children


@pytest.fixture
def children(processes_allowed: None) -> Iterator[Children]:
    """Starts processes that end with the test."""
    with Children(os.environ) as children:
        yield children
