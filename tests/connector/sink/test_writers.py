"""What the driver does with what its tasks say: commit, give up, and tell what is not known."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from pyspark_rmqpull.client.producing import Transaction
from pyspark_rmqpull.errors import BrokerUnavailable, RequestRefused
from pyspark_rmqpull.sink import writers
from pyspark_rmqpull.sink.options import SinkOptions
from pyspark_rmqpull.sink.task import TaskCommit
from pyspark_rmqpull.sink.writers import RmqpullBatchWriter, RmqpullStreamWriter

if TYPE_CHECKING:
    from tests.connector.sink.conftest import FakeProducer

OPTIONS = SinkOptions.from_options({"endpoints": "a:1"})
BATCH = Transaction("rmqpull-spark-sink/query", 7)


@pytest.fixture(autouse=True)
def _asked(producer: FakeProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writers, "producer_of", lambda connection: producer)


def staged(stage_id: str, call_count: int = 1, invalid_count: int = 0) -> TaskCommit:
    return TaskCommit(BATCH, stage_id, call_count, 10, invalid_count)


def test_the_attempts_that_won_are_committed_in_the_order_of_their_partitions(producer: FakeProducer) -> None:
    RmqpullStreamWriter(OPTIONS).commit([staged("b", 2), staged("a", 0)], 7)
    assert producer.commits == [(BATCH, [("b", 2), ("a", 0)])]


def test_what_was_sent_for_good_needs_no_commit(producer: FakeProducer) -> None:
    RmqpullStreamWriter(OPTIONS).commit([TaskCommit(BATCH, None, 0, 10, 0)], 7)
    RmqpullStreamWriter(OPTIONS).commit([], 7)
    assert producer.commits == []


def test_invalid_rows_of_all_tasks_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        RmqpullStreamWriter(OPTIONS).commit([staged("a", 1, 1), staged("b", 1, 2)], 7)
    assert caplog.messages == ["3 of 20 rows were invalid: onInvalidRow is fail"]


def test_a_commit_without_an_answer_says_that_nothing_is_known(producer: FakeProducer) -> None:
    producer.failure = BrokerUnavailable("Nobody answers.")
    with pytest.raises(BrokerUnavailable, match="Whether the rows were committed is not known"):
        RmqpullStreamWriter(OPTIONS).commit([staged("a")], 7)


def test_a_commit_that_is_refused_is_no_success(producer: FakeProducer) -> None:
    producer.failure = RequestRefused("PRECONDITION_FAILED", "stage a is not there")
    with pytest.raises(RequestRefused, match="stage a is not there"):
        RmqpullStreamWriter(OPTIONS).commit([staged("a")], 7)


def test_a_stream_gives_up_what_its_tasks_name_and_a_batch_write_what_is_its_own(producer: FakeProducer) -> None:
    RmqpullStreamWriter(OPTIONS).abort([None, staged("a"), staged("b")], 7)
    assert producer.dropped == [BATCH]
    RmqpullStreamWriter(OPTIONS).abort([None], 7)
    assert producer.dropped == [BATCH]
    RmqpullBatchWriter(OPTIONS).abort([None])
    assert producer.dropped[1].writer_id.startswith("rmqpull-spark-sink/")


def test_giving_up_never_fails(producer: FakeProducer, caplog: pytest.LogCaptureFixture) -> None:
    producer.failure = BrokerUnavailable("Nobody answers.")
    with caplog.at_level(logging.WARNING):
        RmqpullBatchWriter(OPTIONS).abort([None])
    assert caplog.messages == ["What an aborted write has staged is left to its timeout: Nobody answers."]


def test_every_batch_write_has_an_id_of_its_own(producer: FakeProducer) -> None:
    for _ in range(2):
        RmqpullBatchWriter(OPTIONS).abort([])
    assert len(set(producer.dropped)) == 2
