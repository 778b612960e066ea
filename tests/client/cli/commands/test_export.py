"""``rmqpull export``: what is in the files, and how an export that was interrupted goes on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from rmqpull_broker.core.model import Message
from rmqpull_broker.testing import RunningBroker
from rmqpull_client.cli.durable_files import write_file
from rmqpull_client.cli.exports import plan
from rmqpull_client.cli.file_locks import lock_folder
from tests.harness.cli import RunCommand, RunJson, error_of

pytestmark = pytest.mark.parametrize("broker", ["manual"], indirect=True, ids=["manual clock"])


@pytest.fixture(autouse=True)
def _twenty_messages(broker: RunningBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies 0 to 19 on the two queues of ``orders``, and files of at most four messages."""
    for number in range(20):
        tag = "odd" if number % 2 else "even"
        broker.send("orders", Message(b"%d" % number, f"id-{number}", tags=tag, properties={"number": str(number)}))
        broker.clock.advance(1)
    monkeypatch.setattr(plan, "PIECE_ROWS", 4)


def read_bodies(folder: Path) -> list[int]:
    files = [str(file) for file in folder.glob("*.parquet")]
    return sorted(int(body) for body in ds.dataset(files).to_table(["body"]).column("body").to_pylist())


@pytest.mark.parametrize("processes", ["1", "2"])
def test_each_message_is_in_one_file(run: RunCommand, tmp_path: Path, processes: str) -> None:
    folder = tmp_path / "deep" / "orders"
    result = run("export", "orders", str(folder), "--processes", processes)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"exported 20 messages; {folder} has 6 files, which is all of it\n"
    assert read_bodies(folder) == list(range(20))
    assert sorted(file.name for file in folder.iterdir()) == [
        *(f"broker-a-{queue_id}-{first:020d}.parquet" for queue_id in (0, 1) for first in (0, 4, 8)),
        "export.json",
    ]
    rows = pq.read_table(folder / "broker-a-1-00000000000000000004.parquet")
    assert rows.column("queueOffset").to_pylist() == [4, 5, 6, 7]
    assert (rows.column("topic")[0].as_py(), rows.column("queueId")[0].as_py()) == ("orders", 1)
    assert rows.column("properties")[0].as_py() == [("number", "9")]
    assert rows.schema.field("storeTimestamp").type == pa.timestamp("us", tz="UTC")


def test_lines_of_json_are_those_of_peek(run: RunCommand, run_json: RunJson, tmp_path: Path) -> None:
    assert run("export", "orders", str(tmp_path / "a"), "--format", "jsonl").exit_code == 0
    lines = [json.loads(line) for file in (tmp_path / "a").glob("*.jsonl") for line in file.open()]
    peeked: list[Any] = run_json("peek", "orders", "-n", "20")
    assert sorted(lines, key=lambda line: int(line["body"])) == peeked


def test_columns_a_filter_and_a_span_of_time_are_chosen(run: RunCommand, run_json: RunJson, tmp_path: Path) -> None:
    folder, at = tmp_path / "a", run_json("peek", "orders", "--id", "id-12")[0]["storeTimestamp"]
    arguments = ("--columns", "body,queueOffset", "--tag", "odd", "--until", at, "--since", "2013-01-31")
    assert run("export", "orders", str(folder), *arguments).exit_code == 0
    assert read_bodies(folder) == [number for number in range(12) if number % 2]
    (name, *_) = (file for file in folder.glob("*.parquet"))
    assert pq.read_schema(name).names == ["topic", "brokerName", "queueId", "queueOffset", "body"]


def test_queries_of_files_can_skip_by_time_and_offset_and_values_that_repeat_are_stored_once(
    run: RunCommand, tmp_path: Path
) -> None:
    columns = "queueOffset,body,properties,systemProperties,storeTimestamp,storeHost"
    assert run("export", "orders", str(tmp_path / "a"), "--columns", columns).exit_code == 0
    (name, *_) = (tmp_path / "a").glob("*.parquet")
    group = pq.read_metadata(name).row_group(0)
    stored = {each.path_in_schema: each for each in map(group.column, range(group.num_columns))}
    in_dictionaries = {path for path, each in stored.items() if "RLE_DICTIONARY" in each.encodings}
    names = {f"{maps}.key_value.key" for maps in ("properties", "systemProperties")}
    assert in_dictionaries == {"topic", "brokerName", "queueId", "storeHost"} | names
    compared = {path for path, each in stored.items() if each.is_stats_set}
    assert compared == {"topic", "brokerName", "queueId", "queueOffset", "storeTimestamp", "storeHost"}


def test_an_export_continues_with_the_files_that_are_missing(
    broker: RunningBroker, run: RunCommand, run_json: RunJson, tmp_path: Path
) -> None:
    folder = tmp_path / "a"
    assert run("export", "orders", str(folder)).exit_code == 0
    kept = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    (folder / "broker-a-0-00000000000000000004.parquet").unlink()
    (folder / "broker-a-1-00000000000000000008.parquet").unlink()
    (folder / "broker-a-1-00000000000000000008.parquet.unfinished").write_bytes(b"half")
    broker.send("orders", b"20")
    assert run_json("export", "orders", str(folder)) == {
        "topic": "orders",
        "folder": str(folder),
        "messages": 6,
        "files": 6,
        "lost": 0,
    }
    assert read_bodies(folder) == list(range(20))
    assert sorted(file.name for file in folder.iterdir()) == sorted(kept)
    again = {file.name: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert sum(again[name] == kept[name] for name in kept) == 5
    assert "exported 0 messages" in run("export", "orders", str(folder)).stderr


def test_messages_that_were_deleted_meanwhile_are_named(run: RunCommand, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    assert run("export", "orders", str(folder)).exit_code == 0
    begun = replace(plan.decode_plan((folder / plan.PLAN_FILE).read_bytes()), queues=(("broker-a", 0, 0, 12),))
    for file in folder.iterdir():
        file.unlink()
    write_file(folder / plan.PLAN_FILE, plan.encode_plan(begun))
    result = run("export", "orders", str(folder))
    assert error_of(result) == "messages were deleted before they were exported"
    assert "exported 10 messages" in result.stderr
    assert read_bodies(folder) == list(range(0, 20, 2))


def test_an_empty_topic_has_no_files(run: RunCommand, tmp_path: Path) -> None:
    assert "exported 0 messages" in run("export", "single", str(tmp_path / "a")).stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "sentence"),
    [
        (["none", "{}/a"], 1, "topic none does not exist at"),
        (["orders", "{}"], 1, "has other files, such as file; use an empty folder"),
        (["orders", "{}/file/a"], 1, "cannot read {}/file/a/export.json: Not a directory"),
        (["orders", "{}/a", "--columns", "bodies"], 2, "--columns: No such column: bodies. There are queueOffset,"),
    ],
)
def test_an_impossible_export_is_refused(
    run: RunCommand, tmp_path: Path, arguments: list[str], exit_code: int, sentence: str
) -> None:
    (tmp_path / "file").write_bytes(b"")
    result = run("export", *(argument.format(tmp_path) for argument in arguments))
    assert sentence.format(tmp_path) in error_of(result, exit_code)


def test_two_exports_into_one_folder_are_refused(run: RunCommand, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    with lock_folder(folder):
        assert error_of(run("export", "orders", str(folder))) == (
            f"another export writes to {folder} now; wait for its end, or use another folder"
        )
    assert run("export", "orders", str(folder)).exit_code == 0


def test_an_export_that_was_killed_before_it_had_a_plan_begins_anew(run: RunCommand, tmp_path: Path) -> None:
    (tmp_path / "export.json.unfinished").write_bytes(b"{")
    assert run("export", "orders", str(tmp_path)).exit_code == 0
    assert read_bodies(tmp_path) == list(range(20))


def test_a_folder_with_another_export_or_a_bad_plan_is_refused(run: RunCommand, tmp_path: Path) -> None:
    folder = tmp_path / "a"
    assert run("export", "orders", str(folder)).exit_code == 0
    assert f"{folder} has another export, with topic orders instead of single; use another folder" in error_of(
        run("export", "single", str(folder))
    )
    (folder / plan.PLAN_FILE).write_bytes(b"{")
    assert "export.json cannot be used: it is not the plan of an export" in error_of(
        run("export", "orders", str(folder))
    )
