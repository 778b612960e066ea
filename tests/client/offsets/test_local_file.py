"""The offset file of a broadcasting group: its path, its changes, and damage."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import pytest

from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.local_file import FILE_BYTES_MAX, LocalFileOffsetStore, parse_offset_table

FIRST, SECOND = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)


@pytest.fixture
def store(tmp_path: Path) -> LocalFileOffsetStore:
    return LocalFileOffsetStore(str(tmp_path / "offsets"), "10.0.0.1@DEFAULT", "billing")


def backup(store: LocalFileOffsetStore) -> Path:
    return store.path.with_name("offsets.json.bak")


def test_the_file_has_rocketmq_s_path(store: LocalFileOffsetStore, tmp_path: Path) -> None:
    assert store.path == tmp_path / "offsets/10.0.0.1@DEFAULT/billing/offsets.json"


def test_the_default_path_is_in_the_home_directory_with_the_host_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/driver")
    path = LocalFileOffsetStore("~/.rocketmq_offsets", None, "billing").path
    assert path == Path(f"/home/driver/.rocketmq_offsets/{socket.gethostname()}@DEFAULT/billing/offsets.json")


def test_a_group_without_a_file_has_no_offsets(store: LocalFileOffsetStore) -> None:
    assert store.get_offsets([FIRST]) == {FIRST: None}


def test_the_next_run_of_the_same_client_finds_the_offsets(store: LocalFileOffsetStore) -> None:
    store.set_offsets({FIRST: 5})
    again = LocalFileOffsetStore(str(store.path.parents[2]), "10.0.0.1@DEFAULT", "billing")
    other = LocalFileOffsetStore(str(store.path.parents[2]), "10.0.0.2@DEFAULT", "billing")
    assert again.get_offsets([FIRST, SECOND]) == {FIRST: 5, SECOND: None}
    assert other.get_offsets([FIRST]) == {FIRST: None}


def test_setting_offsets_keeps_other_queues_and_a_backup(store: LocalFileOffsetStore) -> None:
    store.set_offsets({FIRST: 5})
    assert not backup(store).exists()
    store.set_offsets({SECOND: 7})
    store.set_offsets({FIRST: 4})
    assert store.get_offsets([FIRST, SECOND]) == {FIRST: 4, SECOND: 7}
    assert parse_offset_table(backup(store).read_text()) == {FIRST: 5, SECOND: 7}
    assert sorted(os.listdir(store.path.parent)) == ["offsets.json", "offsets.json.bak"]


DAMAGED = "Read the consumer offsets from {}.bak, because of damage to {}: "


@pytest.mark.parametrize("content", [b'{"offsetTable":{', b"\xff\xfe", b" " * (FILE_BYTES_MAX + 1)])
def test_the_backup_replaces_a_damaged_file_with_a_warning(
    store: LocalFileOffsetStore, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    store.set_offsets({FIRST: 5})
    store.set_offsets({FIRST: 6})
    store.path.write_bytes(content)
    with caplog.at_level(logging.WARNING):
        assert store.get_offsets([FIRST]) == {FIRST: 5}
    assert caplog.messages[0].startswith(DAMAGED.format(store.path, store.path))


@pytest.mark.parametrize("content", [b"", None])
def test_the_backup_replaces_an_empty_or_missing_file_as_in_rocketmq(
    store: LocalFileOffsetStore, content: bytes | None
) -> None:
    store.set_offsets({FIRST: 5})
    store.set_offsets({FIRST: 6})
    store.path.unlink()
    if content is not None:
        store.path.write_bytes(content)
    assert store.get_offsets([FIRST]) == {FIRST: 5}
    store.set_offsets({SECOND: 1})
    assert store.get_offsets([FIRST, SECOND]) == {FIRST: 5, SECOND: 1}


def test_a_damaged_file_does_not_replace_the_backup(store: LocalFileOffsetStore) -> None:
    store.set_offsets({FIRST: 5})
    store.set_offsets({FIRST: 6})
    store.path.write_text("{")
    store.set_offsets({SECOND: 1})
    assert parse_offset_table(backup(store).read_text()) == {FIRST: 5}
    assert store.get_offsets([FIRST, SECOND]) == {FIRST: 5, SECOND: 1}


def test_two_damaged_files_are_refused_and_kept(store: LocalFileOffsetStore) -> None:
    store.set_offsets({FIRST: 5})
    store.path.write_text("{")
    backup(store).write_text("[")
    for use in (lambda: store.get_offsets([FIRST]), lambda: store.set_offsets({FIRST: 6})):
        with pytest.raises(OptionError, match=r"cannot be read \(.*offsets\.json: .*offsets\.json\.bak: .*Repair the"):
            use()
    assert (store.path.read_text(), backup(store).read_text()) == ("{", "[")


def test_a_failed_write_keeps_the_old_file(store: LocalFileOffsetStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.set_offsets({FIRST: 5})

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OptionError, match=r"cannot be written to .*No space left on device.*localOffsetStoreDir"):
        store.set_offsets({FIRST: 6})
    assert store.get_offsets([FIRST]) == {FIRST: 5}
    assert os.listdir(store.path.parent) == ["offsets.json"]


def test_the_error_names_a_directory_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = LocalFileOffsetStore(str(tmp_path / "file"), "me", "billing")
    with pytest.raises(OptionError, match=r"cannot be read \(.*file/me/billing/offsets\.json: "):
        store.set_offsets({FIRST: 6})
