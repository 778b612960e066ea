"""A disk whose crashes and faults are staged."""

from collections.abc import Callable

import pytest

from tests.harness.memory_vfs import MemoryFileSystem


def test_a_power_cut_keeps_what_was_synced() -> None:
    disk = MemoryFileSystem({"old": b"kept"})
    file = disk.create("new")
    file.write(b"synced")
    file.sync()
    file.write(b" and not")
    disk.append("old").write(b" and lost")
    disk.create("empty")
    assert disk.crashed().files == {"old": b"kept", "new": b"synced", "empty": b""}
    assert disk.files["new"] == b"synced and not"


def test_a_cut_is_synced() -> None:
    disk = MemoryFileSystem({"a": b"one"})
    disk.append("a").write(b"two")
    disk.truncate("a", 4)
    assert disk.crashed().files == {"a": b"onet"}


@pytest.mark.parametrize("operation", ["write", "sync", "truncate"])
def test_a_fault_of_an_operation_happens_once(operation: str) -> None:
    disk = MemoryFileSystem({"a": b"one"})
    disk.fail_next = {operation}
    file = disk.append("a")
    operations: dict[str, Callable[[], None]] = {
        "write": lambda: file.write(b"two"),
        "sync": file.sync,
        "truncate": lambda: disk.truncate("a", 0),
    }
    with pytest.raises(OSError, match=f"{operation} failed"):
        operations[operation]()
    assert disk.files == {"a": b"one"}
    operations[operation]()
