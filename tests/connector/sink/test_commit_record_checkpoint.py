"""The driver reads the plan of a micro-batch from its checkpoint, if it can open that."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_rmqpull.sink.commit_record import PLAN_BYTES, find_folder, read_plan, read_query_id


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint of query ``q``, which has finished batch 3 and runs batch 4."""
    folder = tmp_path / "a checkpoint%20"
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "q"}))
    for batch_id in (3, 4):
        (folder / "offsets" / str(batch_id)).write_text(f'v1\n{{"batchTimestampMs":{batch_id}}}\n{{}}')
    (folder / "commits" / "3").write_text("v1\n{}")
    return folder


@pytest.mark.parametrize(
    ("location", "folder"),
    [
        (None, None),
        ("/a/b", "/a/b"),
        ("a/b", "a/b"),
        ("./a:b", "a:b"),
        ("file:/a/b", "/a/b"),
        ("FILE:///a/b", "/a/b"),
        ("file://localhost/a%20b", "/a%20b"),
        ("file://elsewhere/a", None),
        ("s3a://bucket/a", None),
        ("hdfs:/a", None),
        ("abfss://c@account/a", None),
        ("dbfs:/a", None),
    ],
)
def test_only_a_folder_of_this_machine_can_be_opened(location: str | None, folder: str | None) -> None:
    assert find_folder(location) == (None if folder is None else Path(folder))


@pytest.mark.parametrize("form", ["{}", "file:{}", "file://{}"])
def test_a_batch_that_is_run_again_has_the_same_plan_and_one_that_is_planned_again_has_not(
    checkpoint: Path, form: str
) -> None:
    location = form.format(checkpoint)
    assert read_query_id(location) == "q"
    plan = read_plan(location, "q", 4)
    assert len(plan) == PLAN_BYTES
    assert plan == read_plan(str(checkpoint), "q", 4)
    (checkpoint / "offsets" / "4").write_text('v1\n{"batchTimestampMs":5}\n{}')
    assert read_plan(location, "q", 4) not in (plan, b"")


def test_without_a_readable_checkpoint_nothing_is_known(checkpoint: Path) -> None:
    location = str(checkpoint)
    for other in (None, "s3a://bucket/a", str(checkpoint / "elsewhere")):
        assert read_query_id(other) is None
        assert read_plan(other, "q", 4) == b""
    assert read_plan(location, "q", 5) == b""
    (checkpoint / "offsets" / "4").write_bytes(b"")
    assert read_plan(location, "q", 4) == b""
    for damaged in ("", "[]", "{}", '{"id": 3}', "\0"):
        (checkpoint / "metadata").write_text(damaged)
        assert read_query_id(location) is None


def test_a_folder_of_another_query_or_run_does_not_count(checkpoint: Path) -> None:
    """An old folder on this machine, while for Spark the same path is on its default file system."""
    assert read_plan(str(checkpoint), "another", 4) == b""
    assert read_plan(str(checkpoint), "q", 3) == b""  # Spark has finished this batch, so nobody commits it now
    (checkpoint / "offsets" / "5").write_text("v1")
    assert read_plan(str(checkpoint), "q", 4) == b""
