"""When the number of a micro-batch jumps, the driver's log warns or the query ends: option ``onCommitGap``."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from pyspark_rmqpull.errors import CommitGap
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink import writers
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.targets import refuse_unsupported
from pyspark_rmqpull.sink.task import TaskCommit
from pyspark_rmqpull.sink.writers import RmqpullStreamWriter
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.port import CommitResponse, TransactionId
from tests.harness.fake_producer import FakeProducer

BATCH = TransactionId("rmqpull-spark-sink/query", 5)
STAGED = TaskCommit(BATCH, "a", 1, 10, 0, WrittenRows(frozenset({"orders"}), 10, (1, 2)))


@pytest.fixture(autouse=True)
def _use_producer(producer: FakeProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "get_producer", lambda connection, producer_group: producer)


def make_writer(**options: str) -> RmqpullStreamWriter:
    return RmqpullStreamWriter(SinkOptions.from_options({"endpoints": "a:1", **options}))


@pytest.mark.parametrize(("missing_count", "which"), [(1, "micro-batch 4 of"), (5, "micro-batches 0 to 4 of")])
def test_the_log_warns_of_missing_micro_batches(
    producer: FakeProducer, caplog: pytest.LogCaptureFixture, missing_count: int, which: str
) -> None:
    producer.response = CommitResponse(False, False, missing_count)
    with caplog.at_level(logging.WARNING):
        make_writer().commit([STAGED], 5)
    (text,) = caplog.messages
    assert f"has never committed {which} rmqpull-spark-sink/query" in text
    assert "Because onCommitGap is warn, the micro-batch is committed." in text
    assert producer.gap_refusals == [False]


def test_a_query_that_refuses_gaps_ends_with_two_ways_to_go_on(producer: FakeProducer, tmp_path: Path) -> None:
    producer.response = CommitResponse(False, False, 2, True)
    with pytest.raises(CommitGap) as raised:
        make_writer(onCommitGap="fail", checkpointLocation=str(tmp_path)).commit([STAGED], 5)
    for part in (
        "has never committed micro-batches 3 to 4 of",
        "Nothing of this micro-batch was written.",
        "the offsets in offsets/2 of this checkpoint",
        "set onCommitGap to warn until one micro-batch is committed",
    ):
        assert part in str(raised.value)
    assert producer.gap_refusals == [True]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"checkpointLocation": "s3a://bucket/c"}, "can open, and checkpointLocation is s3a://bucket/c"),
        ({}, "checkpointLocation is no option of this write"),
        ({"delivery": "at-least-once"}, "Option onCommitGap is fail and delivery is at-least-once, which commits no"),
        ({"endpoints": "", "nameServers": "a:1"}, "Option onCommitGap is for delivery exactly-once"),
    ],
)
def test_fail_is_refused_where_it_would_mean_nothing(options: Mapping[str, str], reason: str) -> None:
    given = {name: value for name, value in {"endpoints": "a:1", **options}.items() if value}
    with pytest.raises(OptionError, match=reason):
        RmqpullStreamWriter(SinkOptions.from_options({**given, "onCommitGap": "fail"}))


@pytest.mark.parametrize("extensions", [frozenset({"columns", "stages"}), frozenset[str]()])
def test_fail_needs_a_server_that_counts(producer: FakeProducer, extensions: frozenset[str]) -> None:
    options = SinkOptions.from_options({"endpoints": "a:1", "onCommitGap": "fail"})
    refuse_unsupported(producer, options)
    producer.tells_commit_gaps, producer.extensions = False, extensions
    with pytest.raises(OptionError, match="server at a:1 does not count missing micro-batches"):
        refuse_unsupported(producer, options)
