"""The driver commits what its tasks report, or drops it, and explains what went wrong."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_rmqpull.errors import CheckpointConflict
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink import writers
from pyspark_rmqpull.sink.commit_record import PLAN_BYTES, WrittenRows
from pyspark_rmqpull.sink.task import TaskCommit
from pyspark_rmqpull.sink.writers import RmqpullBatchWriter, RmqpullStreamWriter
from rmqpull_client.errors import BrokerUnavailable, OptionError, RequestRefused, TransactionTaken
from rmqpull_client.transports.port import CommitRecord, CommitResponse, TransactionId
from tests.harness.fake_producer import FakeProducer

OPTIONS = SinkOptions.from_options({"endpoints": "a:1"})
BATCH = TransactionId("rmqpull-spark-sink/query", 7)
WRITTEN = WrittenRows(frozenset({"orders"}), 10, (1, 2))


@pytest.fixture(autouse=True)
def _use_producer(producer: FakeProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "get_producer", lambda connection, producer_group: producer)


def staged(stage_id: str, call_count: int = 1, invalid_count: int = 0) -> TaskCommit:
    return TaskCommit(BATCH, stage_id, call_count, 10, invalid_count, WRITTEN)


def test_the_attempts_that_won_are_committed_in_the_order_of_their_partitions(producer: FakeProducer) -> None:
    RmqpullStreamWriter(OPTIONS).commit([staged("b", 2), staged("a", 0)], 7)
    assert producer.commits == [(BATCH, [("b", 2), ("a", 0)])]


def test_messages_that_are_sent_already_need_no_commit(producer: FakeProducer) -> None:
    RmqpullStreamWriter(OPTIONS).commit([TaskCommit(BATCH, None, 0, 10, 0)], 7)
    RmqpullStreamWriter(OPTIONS).commit([], 7)
    assert producer.commits == []


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """The checkpoint of a query that runs micro-batch 7."""
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "7").write_text("v1")
    (tmp_path / "metadata").write_text('{"id":"query"}')
    return tmp_path


def writing_to(location: str) -> RmqpullStreamWriter:
    given = SinkOptions.from_options({"endpoints": "a:1", "CheckpointLocation": location, "delivery": "exactly-once"})
    return RmqpullStreamWriter(given)


def test_a_micro_batch_is_committed_with_its_plan_and_the_rows_of_the_attempts_that_won(
    producer: FakeProducer, checkpoint: Path
) -> None:
    writing_to(f"file://{checkpoint}").commit([staged("a"), None, staged("b")], 7)
    (record,) = producer.records
    assert record is not None
    assert record == CommitRecord(record.plan, "orders", 20, b"\x02" + bytes(7) + b"\x04" + bytes(7))
    assert len(record.plan) == PLAN_BYTES


@pytest.mark.parametrize("location", ["s3a://bucket/checkpoint", "hdfs://name/checkpoint", "/nowhere/checkpoint"])
def test_without_a_readable_checkpoint_there_is_no_plan(producer: FakeProducer, location: str) -> None:
    writing_to(location).commit([staged("a")], 7)
    assert [record and record.plan for record in producer.records] == [b""]


def test_a_micro_batch_without_tasks_is_committed_if_the_checkpoint_names_the_query(
    producer: FakeProducer, checkpoint: Path
) -> None:
    writing_to(str(checkpoint)).commit([None], 7)
    writing_to("s3a://bucket/checkpoint").commit([None], 7)
    assert producer.commits == [(BATCH, [])]
    assert [record and record[1:] for record in producer.records] == [("", 0, bytes(16))]


def test_another_micro_batch_with_the_same_number_ends_the_query_with_advice(producer: FakeProducer) -> None:
    producer.failure = TransactionTaken("INVALID_TRANSACTION_ID", "it was planned again, and the rows differ")
    with pytest.raises(CheckpointConflict) as raised:
        RmqpullStreamWriter(OPTIONS).commit([staged("a")], 7)
    for part in (
        "The broker refused micro-batch 7 of rmqpull-spark-sink/query: it was planned again, and the rows differ.",
        "\n1. If the newest micro-batch went to other topics than this query's: keep this checkpoint and set a new",
        "\n2. If another checkpoint wrote the newest micro-batch and you still have it",
        "\n3. If you know what was written: start with a new checkpoint, and set startingOffsets",
        "\n4. Otherwise: keep this checkpoint and set a new producerGroup.",
    ):
        assert part in str(raised.value)


def test_a_repeated_micro_batch_logs_nothing_unless_it_could_not_be_compared(
    producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    """An older broker compares nothing. This one cannot compare what an older release has committed."""
    with caplog.at_level(logging.WARNING):
        for response in ((False, False), (True, True), (True, False)):
            producer.response = CommitResponse(*response)
            RmqpullStreamWriter(OPTIONS).commit([staged("a")], 7)
    (text,) = caplog.messages
    assert "If the checkpoint was restored or copied since then, new rows of the micro-batch are lost." in text


@pytest.mark.parametrize("writer", [RmqpullStreamWriter, RmqpullBatchWriter])
def test_a_write_without_numpy_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, writer: type[RmqpullStreamWriter | RmqpullBatchWriter]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(OptionError, match=r"Install rmqpull\[spark\]"):
        writer(OPTIONS)


def test_invalid_rows_of_all_tasks_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        RmqpullStreamWriter(OPTIONS).commit([staged("a", 1, 1), staged("b", 1, 2)], 7)
    assert caplog.messages == ["3 of 20 rows were invalid (onInvalidRow=fail)"]


def test_dropped_properties_of_all_tasks_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    tasks = [replace(staged(stage_id), dropped_count=count) for stage_id, count in (("a", 5), ("b", 0), ("c", 2))]
    with caplog.at_level(logging.WARNING):
        RmqpullBatchWriter(replace(OPTIONS, invalid_properties="drop")).commit([*tasks])
    assert caplog.messages == ["7 properties were dropped (invalidProperties=drop)"]


def test_a_commit_without_a_response_says_that_the_result_is_unknown(producer: FakeProducer) -> None:
    producer.failure = BrokerUnavailable("Nobody answers.")
    with pytest.raises(BrokerUnavailable, match="It is unknown whether the rows were committed"):
        RmqpullStreamWriter(OPTIONS).commit([staged("a")], 7)


def test_a_commit_that_is_refused_is_an_error(producer: FakeProducer) -> None:
    producer.failure = RequestRefused("FORBIDDEN", "topic orders cannot be written")
    with pytest.raises(RequestRefused, match="topic orders cannot be written") as refused:
        RmqpullStreamWriter(OPTIONS).commit([staged("a")], 7)
    assert str(refused.value) == "topic orders cannot be written"


@pytest.mark.parametrize("writer", [RmqpullStreamWriter, RmqpullBatchWriter])
def test_a_commit_of_stages_that_the_broker_has_lost_says_what_to_do(
    producer: FakeProducer, writer: type[RmqpullStreamWriter | RmqpullBatchWriter]
) -> None:
    producer.failure = RequestRefused("PRECONDITION_FAILED", "stage a does not exist")
    with pytest.raises(
        RequestRefused, match=r"^stage a does not exist\. Nothing of this write is readable\. Start a stream again"
    ) as refused:
        writer(OPTIONS).commit([staged("a")], *[7] * (writer is RmqpullStreamWriter))
    assert refused.value.code == "PRECONDITION_FAILED"


@pytest.mark.parametrize(
    ("on_invalid_row", "row_count"),
    [({"onInvalidRow": "skip"}, 17), ({"onInvalidRow": "deadLetter", "deadLetterTopic": "dead"}, 20)],
)
def test_a_commit_says_how_many_rows_the_tasks_have_staged(
    producer: FakeProducer, on_invalid_row: dict[str, str], row_count: int
) -> None:
    """A skipped row is in no stage; a dead letter takes the place of its row."""
    options = SinkOptions.from_options({"endpoints": "a:1", **on_invalid_row})
    RmqpullStreamWriter(options).commit([staged("a", 1, 1), staged("b", 1, 2)], 7)
    RmqpullBatchWriter(options).commit([staged("a", 1, 1), staged("b", 1, 2)])
    assert producer.row_counts == [row_count] * 2


def test_abort_drops_the_stages_that_tasks_have_reported_and_a_batch_write_its_own(producer: FakeProducer) -> None:
    RmqpullStreamWriter(OPTIONS).abort([None, staged("a"), staged("b")], 7)
    assert producer.dropped == [BATCH]
    RmqpullStreamWriter(OPTIONS).abort([None], 7)
    assert producer.dropped == [BATCH]
    RmqpullBatchWriter(OPTIONS).abort([None])
    assert producer.dropped[1].writer_id.startswith("rmqpull-spark-sink/")


def test_abort_drops_what_unfinished_tasks_have_staged_if_the_checkpoint_names_the_query(
    producer: FakeProducer, checkpoint: Path
) -> None:
    """A cancelled micro-batch, of which no task has finished."""
    writing_to(str(checkpoint)).abort([None, None], 7)
    writing_to("s3a://bucket/checkpoint").abort([None, None], 7)
    assert producer.dropped == [BATCH]


def test_abort_never_fails(producer: FakeProducer, caplog: pytest.LogCaptureFixture) -> None:
    producer.failure = BrokerUnavailable("Nobody answers.")
    with caplog.at_level(logging.WARNING):
        RmqpullBatchWriter(OPTIONS).abort([None])
    assert caplog.messages == ["Staged rows of a failed write stay on the broker until they expire: Nobody answers."]


def test_every_batch_write_has_its_own_id(producer: FakeProducer) -> None:
    for _ in range(2):
        RmqpullBatchWriter(OPTIONS).abort([])
    assert len(set(producer.dropped)) == 2
