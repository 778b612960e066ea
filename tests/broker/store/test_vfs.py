"""What the commit log asks of a file system: one suite for the real one and the one in memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rmqpull_broker.store.vfs import DirectoryInUse, FileSystem, OsFileSystem
from tests.harness.memory_vfs import MemoryFileSystem


@pytest.fixture(params=["disk", "memory"])
def file_system(request: pytest.FixtureRequest, tmp_path: Path) -> FileSystem:
    return MemoryFileSystem() if request.param == "memory" else OsFileSystem(str(tmp_path / "new" / "data"))


def write(file_system: FileSystem, name: str, data: bytes) -> None:
    file = file_system.create(name)
    file.write(data)
    file.sync()
    file.close()


def test_what_is_written_is_read(file_system: FileSystem) -> None:
    write(file_system, "b", b"one")
    write(file_system, "a", b"")
    assert file_system.names() == ["a", "b"]
    assert (bytes(file_system.view("a")), bytes(file_system.view("b"))) == (b"", b"one")


def test_a_file_is_written_on_at_its_end(file_system: FileSystem) -> None:
    write(file_system, "a", b"one")
    file = file_system.append("a")
    file.write(b"two")
    file.write(b"three")
    file.close()
    assert bytes(file_system.view("a")) == b"onetwothree"


def test_a_cut_file_is_written_on_where_it_was_cut(file_system: FileSystem) -> None:
    file = file_system.create("a")
    file.write(b"one two")
    file_system.truncate("a", 4)
    file.write(b"three")
    assert bytes(file_system.view("a")) == b"one three"


def test_a_removed_file_is_gone_and_its_name_free(file_system: FileSystem) -> None:
    write(file_system, "a", b"one")
    file_system.remove("a")
    assert file_system.names() == []
    write(file_system, "a", b"two")
    assert bytes(file_system.view("a")) == b"two"


def test_a_view_stays_as_it_was_while_the_file_grows(file_system: FileSystem) -> None:
    write(file_system, "a", b"one")
    view = file_system.view("a")
    file_system.append("a").write(b"two")
    assert bytes(view) == b"one"


# --- the disk alone ----------------------------------------------------------------------------------------------


def test_messages_name_the_path(tmp_path: Path) -> None:
    assert OsFileSystem(str(tmp_path)).describe("a") == f"{tmp_path}/a"


def test_a_directory_has_one_owner_until_it_is_closed(tmp_path: Path) -> None:
    owner = OsFileSystem(str(tmp_path))
    write(owner, "a", b"one")
    with pytest.raises(DirectoryInUse, match=f"{tmp_path} is in use by another broker"):
        OsFileSystem(str(tmp_path))
    owner.close()
    assert OsFileSystem(str(tmp_path)).names() == ["a"]


def test_an_existing_file_is_not_created_over(tmp_path: Path) -> None:
    disk = OsFileSystem(str(tmp_path))
    write(disk, "a", b"one")
    with pytest.raises(FileExistsError):
        disk.create("a")


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b""), lambda path: path.symlink_to(path)])
def test_a_directory_that_cannot_be_made_is_an_os_error(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    spoil(tmp_path / "data")
    with pytest.raises(OSError, match="data"):
        OsFileSystem(str(tmp_path / "data"))


def test_a_write_that_the_system_takes_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = OsFileSystem(str(tmp_path)).create("a")
    take = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: take(descriptor, data[:2]))
    file.write(b"seven77")
    assert (tmp_path / "a").read_bytes() == b"seven77"


def test_directories_names_content_and_cuts_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(
            os, name, lambda descriptor: synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        )
    disk = OsFileSystem(str(tmp_path / "new" / "data"))
    write(disk, "a", b"one")
    disk.truncate("a", 1)
    disk.remove("a")
    OsFileSystem(str(tmp_path)).close()
    assert synced == ["new", tmp_path.name, "data", "a", "a", "data"]
