"""What the driver reads in a checkpoint, and where it can read nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_rmqpull.sink.checkpoint import PLAN_BYTES, folder_of, read_plan, read_query_id


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of query ``q``, which has finished batch 3 and runs batch 4."""
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
def test_where_a_checkpoint_is(location: str | None, folder: str | None) -> None:
    assert folder_of(location) == (None if folder is None else Path(folder))


@pytest.mark.parametrize("spelled", ["{}", "file:{}", "file://{}"])
def test_the_plan_of_a_batch_that_is_run_again_is_the_same(checkpoint: Path, spelled: str) -> None:
    location = spelled.format(checkpoint)
    assert read_query_id(location) == "q"
    plan = read_plan(location, "q", 4)
    assert len(plan) == PLAN_BYTES
    assert plan == read_plan(str(checkpoint), "q", 4)
    (checkpoint / "offsets" / "4").write_text('v1\n{"batchTimestampMs":5}\n{}')
    assert read_plan(location, "q", 4) not in (plan, b"")


def test_what_cannot_be_read_is_not_known(checkpoint: Path) -> None:
    location = str(checkpoint)
    for elsewhere in (None, "s3a://bucket/a", str(checkpoint / "elsewhere")):
        assert read_query_id(elsewhere) is None
        assert read_plan(elsewhere, "q", 4) == b""
    assert read_plan(location, "q", 5) == b""
    (checkpoint / "offsets" / "4").write_bytes(b"")
    assert read_plan(location, "q", 4) == b""
    for damaged in ("", "[]", "{}", '{"id": 3}', "\0"):
        (checkpoint / "metadata").write_text(damaged)
        assert read_query_id(location) is None


def test_a_folder_that_is_not_the_querys_own_says_nothing(checkpoint: Path) -> None:
    """Left behind on this machine, while Spark takes the same path for one of its default file system."""
    assert read_plan(str(checkpoint), "another", 4) == b""
    assert read_plan(str(checkpoint), "q", 3) == b""  # Spark has finished it: nobody commits it now
    (checkpoint / "offsets" / "5").write_text("v1")
    assert read_plan(str(checkpoint), "q", 4) == b""
