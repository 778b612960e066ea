"""Locks of a folder and of a file: one holder at a time, and nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqpull_client.cli.file_locks import InUse, lock_file, lock_folder


def test_a_folder_has_one_holder_at_a_time(tmp_path: Path) -> None:
    with lock_folder(tmp_path), pytest.raises(InUse), lock_folder(tmp_path):
        pass
    with lock_folder(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_a_file_has_one_holder_at_a_time_also_when_it_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    with lock_file(file):
        file.write_bytes(b"{}")
        with pytest.raises(InUse), lock_file(file):
            pass
    with lock_file(file):
        pass
    assert list(tmp_path.iterdir()) == [file]


def test_a_lock_that_was_left_behind_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "a.lock").touch()
    with lock_file(tmp_path / "a"):
        pass
    assert list(tmp_path.iterdir()) == []
