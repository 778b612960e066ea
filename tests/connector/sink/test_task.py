"""A task delivers rows, deals with invalid ones, and reports to the driver."""

from __future__ import annotations

import logging
import pickle
from typing import Any, cast

import pyarrow as pa
import pytest

from pyspark_rmqpull.errors import InvalidRowError
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.invalid_rows import LOGGED_ROWS_MAX, REASON
from pyspark_rmqpull.sink.repeats import ID
from pyspark_rmqpull.sink.targets import check_targets
from pyspark_rmqpull.sink.task import SinkTask, TaskCommit
from rmqpull_client.transports.port import Producer, TransactionId
from tests.harness.fake_producer import FakeProducer

BATCH = TransactionId("query", 7)
AT_LEAST_ONCE = {"delivery": "at-least-once"}
DEAD = {"onInvalidRow": "deadLetter", "deadLetterTopic": "dead"}


def run(producer: FakeProducer, *batches: dict[str, Any], **options: str) -> TaskCommit:
    given = SinkOptions.from_options({"endpoints": "a:1", "topic": "orders"} | options)
    checked = check_targets(cast("Producer", producer), given, ["body"])
    task = SinkTask(cast("Producer", producer), checked, BATCH, 3, "s")
    return task.run(iter([pa.record_batch(batch) for batch in batches]))


def test_a_task_of_a_transaction_reports_its_stage_and_its_calls(producer: FakeProducer) -> None:
    done = run(producer, {"body": [b"1", b"2"]}, {"body": [b"3"]})
    assert done.written is not None
    assert done.written[:2] == (frozenset({"orders"}), 3)
    assert done == TaskCommit(BATCH, "s", call_count=1, row_count=3, invalid_count=0, written=done.written)
    assert pickle.loads(pickle.dumps(done)) == done
    assert producer.properties == []


def test_a_task_without_rows_has_a_stage_without_calls(producer: FakeProducer) -> None:
    nothing = WrittenRows(frozenset(), 0, (0, 0))
    assert run(producer) == TaskCommit(BATCH, "s", 0, 0, 0, nothing)
    assert run(producer, {"body": pa.array([], pa.binary())}) == TaskCommit(BATCH, "s", 0, 0, 0, nothing)


def test_a_task_reports_all_its_rows_even_when_its_micro_batch_is_committed_already(producer: FakeProducer) -> None:
    """The commit has to find out whether it is the same micro-batch."""
    first = run(producer, {"body": [b"1", b"2"]}, {"body": [b"3"]}, inFlight="1")
    producer.is_committed = True
    again = run(producer, {"body": [b"3", b"1"]}, {"body": [b"2"]}, inFlight="1")
    assert (again.written, len(producer.stored)) == (first.written, 1)
    assert run(producer, {"body": [b"1", b"2"]}, {"body": [b"4"]}, inFlight="1").written != first.written


def test_the_record_counts_all_rows_valid_or_not(producer: FakeProducer) -> None:
    whole = run(producer, {"body": [b"1", b"22"]})
    skipped = run(producer, {"body": [b"1", b"22"]}, onInvalidRow="skip", maxMessageSize="1")
    assert (skipped.invalid_count, skipped.written) == (1, whole.written)


@pytest.mark.parametrize("extensions", [{"columns", "stages"}, {"columns"}, set()])
def test_at_least_once_gives_every_message_its_id(producer: FakeProducer, extensions: set[str]) -> None:
    producer.extensions = frozenset(extensions)
    done = run(producer, {"body": [b"1", b"2"]}, **AT_LEAST_ONCE)
    assert done == TaskCommit(BATCH, None, 0, 2, 0)
    assert len({own[ID] for own in producer.properties}) == 2


def test_an_invalid_row_ends_the_write_with_an_error_that_describes_it(producer: FakeProducer) -> None:
    with pytest.raises(InvalidRowError) as raised:
        run(producer, {"body": [b"12345"], "tags": ["Paid"], "keys": ["No. 1"]}, maxMessageSize="4", topic="orders")
    assert str(raised.value) == (
        "Invalid row for topic orders with tags 'Paid', keys ['No.', '1'], a body of 5 bytes: its body has more than "
        "maxMessageSize=4 bytes. Correct the row, or set option onInvalidRow to skip or deadLetter."
    )


def test_skipped_rows_are_counted_and_logged_up_to_a_limit(
    producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.bad = {b"bad"}
    with caplog.at_level(logging.WARNING):
        done = run(producer, {"body": [b"1", None, b"bad", *[b""] * 20]}, onInvalidRow="skip")
    assert (done.row_count, done.invalid_count) == (23, 22)
    assert producer.in_order == [b"1"]
    assert len(caplog.messages) == LOGGED_ROWS_MAX + 1
    assert caplog.messages[-1] == "This task had 22 invalid rows"


DIRTY = {
    "body": [b"1", b"2"],
    "properties": pa.array([[("a", "b"), ("DELAY", "3")], [("c", "\x01")]], pa.map_(pa.string(), pa.string())),
}


@pytest.mark.parametrize("extensions", [{"columns", "stages"}, {"columns"}, set()])
def test_properties_that_cannot_be_carried_are_dropped_and_counted(
    producer: FakeProducer, extensions: set[str]
) -> None:
    producer.extensions = frozenset(extensions)
    done = run(producer, DIRTY, invalidProperties="drop")
    assert (done.row_count, done.invalid_count, done.dropped_count) == (2, 0, 2)
    assert sorted(producer.in_order) == [b"1", b"2"]


@pytest.mark.parametrize("extensions", [{"columns", "stages"}, {"columns"}, set()])
def test_without_the_option_such_properties_make_their_rows_invalid(
    producer: FakeProducer, extensions: set[str]
) -> None:
    producer.extensions = frozenset(extensions)
    with pytest.raises(InvalidRowError, match="property DELAY is RocketMQ's own"):
        run(producer, DIRTY)
    done = run(producer, DIRTY, onInvalidRow="skip")
    assert (done.invalid_count, done.dropped_count) == (2, 0)


def test_invalid_rows_go_to_the_dead_letter_topic(producer: FakeProducer) -> None:
    producer.types["dead"] = {"NORMAL"}
    done = run(producer, {"body": [b"1", None]}, **DEAD)
    assert producer.in_order == [b"1", b"(no body)"]
    assert producer.properties[-1][REASON] == "its body is null"
    assert (done.row_count, done.invalid_count) == (2, 1)


def test_a_dead_letter_that_is_refused_ends_the_write(producer: FakeProducer) -> None:
    producer.types["dead"] = {"NORMAL"}
    producer.bad = {b"bad"}
    with pytest.raises(InvalidRowError, match="Invalid row for topic dead with a body of 3 bytes: A tag"):
        run(producer, {"body": [b"1", b"bad"]}, **DEAD)
