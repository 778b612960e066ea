"""Properties of the storage are tested with messages of any kind, on disks in memory."""

from __future__ import annotations

import pytest

from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import EAGER, TWELVE, StorageHarness, register_messages

register_messages()


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def broker(disk: MemoryFileSystem) -> StorageHarness:
    """Twelve messages in three chunks, all of them saved."""
    broker = StorageHarness(disk, EAGER)
    broker.topic()
    for first in range(0, 12, 4):
        broker.send(*TWELVE[first : first + 4])
        broker.keep_up()
    return broker
