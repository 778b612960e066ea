"""The output has the files that Spark's file sink lists, batch by batch, and none that a killed batch left."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from soak.output import files_of_batches, rows


def log(result: Path, name: str, *files: str) -> None:
    entries = [json.dumps({"path": (result / file).as_uri()}) for file in files]
    (result / "_spark_metadata" / name).write_text("\n".join(["v1", *entries]), encoding="utf-8")


@pytest.fixture
def result(tmp_path: Path) -> Path:
    (tmp_path / "_spark_metadata").mkdir()
    return tmp_path


def test_a_compact_log_adds_only_the_files_that_earlier_logs_do_not_list(result: Path) -> None:
    log(result, "0", "a", "b")
    log(result, "1")
    log(result, "2.compact", "a", "b", "c")
    log(result, "3", "d")
    (result / "_spark_metadata" / ".4.crc").touch()
    found = {batch: [file.name for file in files] for batch, files in files_of_batches(result).items()}
    assert found == {0: ["a", "b"], 1: [], 2: ["c"], 3: ["d"]}


def test_rows_come_in_the_order_of_their_files(result: Path) -> None:
    for name, offsets in (("listed", [3, 1]), ("left behind", [9])):
        columns = {"queueId": [0] * len(offsets), "queueOffset": offsets}
        texts = {name: ["x"] * len(offsets) for name in ("topic", "brokerName", "msgId", "key", "tag", "digest")}
        pq.write_table(pa.table({**columns, **texts}), result / name)
    log(result, "5", "listed")
    assert [(row.batch_id, row.file, row.offset) for row in rows(result)] == [(5, "listed", 3), (5, "listed", 1)]
    assert {row.queue for row in rows(result)} == {("x", "x", 0)}
