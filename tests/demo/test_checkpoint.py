"""The files of a streaming query, in the form that Spark 4.3 writes."""

import json
from pathlib import Path

import pytest

from demo.checkpoint import MicroBatch, committed, listed_files, micro_batches, orphan_files, planned, unfinished


def write_offsets(checkpoint: Path, batch_id: int, queues: dict[int, int], broker: str = "broker-a") -> None:
    source = json.dumps({"offsets": {"flights": {broker: {str(q): n for q, n in queues.items()}}}, "version": 1})
    folder = checkpoint / "offsets"
    folder.mkdir(exist_ok=True)
    (folder / str(batch_id)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{source}', encoding="utf-8")
    (folder / f".{batch_id}.crc").touch()


def test_a_micro_batch_starts_where_the_previous_one_ends(tmp_path: Path) -> None:
    for batch_id in range(11):
        write_offsets(tmp_path, batch_id, {0: 10 * batch_id, 1: 5 * batch_id})
    batches = micro_batches(tmp_path, "flights")
    assert batches[0] == MicroBatch(0, {}, {0: 0, 1: 0})
    assert batches[10] == MicroBatch(10, {0: 90, 1: 45}, {0: 100, 1: 50})


def test_offsets_of_a_second_broker_are_refused(tmp_path: Path) -> None:
    write_offsets(tmp_path, 0, {0: 1})
    path = tmp_path / "offsets" / "0"
    path.write_text(path.read_text(encoding="utf-8").replace('{"broker-a"', '{"broker-b": {"0": 1}, "broker-a"'))
    with pytest.raises(ValueError, match="the checkpoint names broker-b, broker-a"):
        micro_batches(tmp_path, "flights")


def test_a_micro_batch_without_commit_is_unfinished(tmp_path: Path) -> None:
    assert unfinished(tmp_path) is None
    write_offsets(tmp_path, 0, {0: 1})
    assert (planned(tmp_path), committed(tmp_path), unfinished(tmp_path)) == ([0], [], 0)
    (tmp_path / "commits").mkdir()
    (tmp_path / "commits" / "0").touch()
    assert unfinished(tmp_path) is None
    write_offsets(tmp_path, 1, {0: 2})
    assert unfinished(tmp_path) == 1


def test_files_that_the_sink_does_not_list_are_orphans(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"part-{name}.parquet").touch()
    assert orphan_files(tmp_path) == {"part-a.parquet", "part-b.parquet", "part-c.parquet"}
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name, log_name in (("a", "9.compact"), ("b", "10")):
        (log / log_name).write_text(f'v1\n{{"path":"file:///x/part-{name}.parquet","size":1}}', encoding="utf-8")
    assert listed_files(tmp_path) == {"part-a.parquet", "part-b.parquet"}
    assert orphan_files(tmp_path) == {"part-c.parquet"}
