"""``rmqpull-broker log``: dump and verify."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from rmqpull_broker.cli import main
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.vfs import OsFileSystem
from rmqpull_broker.testing import running_broker
from tests.harness.cli import error_of, make_runner


def run(*arguments: str) -> Result:
    return make_runner().invoke(main, ["log", *arguments])


def records(*arguments: str) -> list[Any]:
    result = run("dump", *arguments, "--json")
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture
def directory(tmp_path: Path) -> str:
    """The data directory of a broker with two messages and one group."""
    path = str(tmp_path)
    with running_broker(topics={"orders": 2}, data_dir=path) as broker:
        for words in ("send orders --body a --body b", "group create readers"):
            assert make_runner().invoke(main, [*words.split(), "--endpoints", broker.endpoints]).exit_code == 0
    return path


def log_of(directory: str) -> Path:
    (log,) = Path(directory).glob("*.log")
    return log


def test_a_dump_prints_the_facts_of_every_record(directory: str) -> None:
    facts = [fact for record in records(directory) for fact in record["facts"]]
    assert [fact["fact"] for fact in facts] == ["TopicPut", "ColumnsStored", "GroupPut"]
    assert facts[0]["topic"]["name"] == "orders"
    assert facts[0]["topic"]["readQueueNums"] == 2
    assert facts[1]["parts"] == [
        {"queue": "orders/broker-a/0", "firstOffset": 0, "rowCount": 1},
        {"queue": "orders/broker-a/1", "firstOffset": 0, "rowCount": 1},
    ]
    assert facts[2]["group"]["name"] == "readers"


def test_a_dump_has_a_start_and_a_limit(directory: str) -> None:
    everything = records(directory)
    assert records(directory, "--from-position", str(everything[1]["position"])) == everything[1:]
    assert records(directory, "--limit", "1") == everything[:1]
    assert records(directory, "--from-position", "999999999") == []


def test_the_text_of_a_dump_has_a_line_per_fact(directory: str) -> None:
    lines = run("dump", directory).stdout.splitlines()
    assert lines[0].endswith(" bytes)")
    assert lines[1].startswith('  TopicPut  topic={"name": "orders"')


def test_verify_reports_no_damage_in_an_intact_directory(directory: str) -> None:
    result = run("verify", directory, "--json")
    assert result.exit_code == 0
    report = json.loads(result.stdout)
    assert (report["segments"], report["damage"]) == (1, [])
    assert run("verify", directory).stderr == "no damage found\n"
    assert report["records"] == len(records(directory))


def damage(directory: str) -> Path:
    log = log_of(directory)
    data = bytearray(log.read_bytes())
    data[60] ^= 0xFF
    log.write_bytes(data)
    return log


def test_damage_that_prevents_a_start_ends_with_exit_code_1(directory: str) -> None:
    for snapshot in Path(directory).glob("*.snapshot"):
        snapshot.unlink()
    log = damage(directory)
    result = run("verify", directory)
    assert f"{log} is damaged at offset 16" in error_of(result)
    assert "prevents the broker's start" in result.stdout
    with pytest.raises(CorruptLog), running_broker(data_dir=directory):
        pass


def test_damage_before_the_newest_snapshot_is_reported_and_the_broker_starts(directory: str) -> None:
    log = damage(directory)
    result = run("verify", directory)
    assert f"{log} is damaged at offset 16" in error_of(result)
    assert "passed over by a start with the newest snapshot; messages that are only there cannot" in result.stdout
    with running_broker(data_dir=directory) as broker:
        assert len(broker.messages("orders")) == 2


def test_a_dump_reports_damage(directory: str) -> None:
    log = damage(directory)
    assert error_of(run("dump", directory)) == f"{log} is damaged at offset 16"


def test_an_incomplete_end_of_the_log_is_not_an_error(directory: str) -> None:
    log = log_of(directory)
    log.write_bytes(log.read_bytes() + b"torn")
    (damage,) = json.loads(run("verify", directory, "--json").stdout)["damage"]
    assert damage["effect"] == "cut off at the next start"
    assert run("verify", directory).exit_code == 0


def test_a_directory_that_a_broker_uses_is_refused(tmp_path: Path) -> None:
    with running_broker(data_dir=str(tmp_path)):
        assert "is in use by another broker; stop that broker first" in error_of(run("dump", str(tmp_path)))


def test_a_missing_directory_is_refused_and_not_created(tmp_path: Path) -> None:
    assert error_of(run("verify", str(tmp_path / "none"))) == f"the data directory {tmp_path / 'none'} does not exist"
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("command", ["dump", "verify"])
def test_a_directory_without_a_commit_log_is_refused_and_stays_unchanged(tmp_path: Path, command: str) -> None:
    sentence = f"{tmp_path} has no commit log, whose files are named like 00000000000000000000.log"
    assert error_of(run(command, str(tmp_path))) == sentence
    assert list(tmp_path.iterdir()) == []


def test_a_read_only_directory_is_read_without_a_lock(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(OsFileSystem, "_create_and_lock", refuse)
    assert run("verify", directory).exit_code == 0
