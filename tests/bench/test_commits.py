"""The workloads of commits at a tiny size: the figures mean nothing, but they are all there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.commits import (
    ALL_LOOKS,
    AT_LEAST_ONCE,
    BULK,
    EMPTY,
    SMALL_PARTS,
    STAGING,
    WRITTEN_QUEUES,
    commits,
)
from bench.committing import whole_batch_of
from bench.comparison import OURS
from bench.sizes import QUICK
from bench.topics import BenchContext
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PUBLISH_SCHEMA

ROWS_OF_TINY = 4_096
NO_SPARK: Any = None
CONTENDERS = {
    "commit": {OURS, STAGING},
    "commit-parts": {OURS, ALL_LOOKS},
    "commit-cost": {OURS, AT_LEAST_ONCE, SMALL_PARTS},
    "commit-bytes": {OURS, AT_LEAST_ONCE, SMALL_PARTS},
    "commits-read-even": {OURS, BULK},
    "commits-memory-even": {OURS, BULK, EMPTY},
    "commits-read-parts": {OURS, BULK},
    "commits-memory-parts": {OURS, BULK, EMPTY},
}


def test_rows_that_are_sent_lack_nothing_that_is_stored_of_each() -> None:
    (batch,) = read_stream(whole_batch_of(WRITTEN_QUEUES), PUBLISH_SCHEMA)
    assert set(batch.schema.names) == {"body", "msgId", "bornTimestamp", "properties"}
    assert len(set(batch.column("msgId").to_pylist())) == WRITTEN_QUEUES


@pytest.mark.processes
def test_every_figure_is_measured() -> None:
    sizes = replace(QUICK, runs=1, written_rows=ROWS_OF_TINY, staged_rows=ROWS_OF_TINY, commits=9)
    measured = {one.name: one for one in commits(BenchContext(NO_SPARK, sizes))}
    without_a_disk = {"commit-cost", "commit-bytes"}
    assert {name: one.failed for name, one in measured.items() if name not in without_a_disk and one.failed} == {}
    for name in without_a_disk:
        assert all("TMPDIR" in reason for reason in measured[name].failed.values())
    assert {name: {*one.figures, *one.failed} for name, one in measured.items()} == CONTENDERS
