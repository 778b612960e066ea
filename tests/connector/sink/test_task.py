"""What a task does with rows that are no messages, and what it tells the driver."""

from __future__ import annotations

import logging
import pickle
from typing import Any, cast

import pyarrow as pa
import pytest

from pyspark_rmqpull.errors import InvalidRowError
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.dead_letters import REASON
from pyspark_rmqpull.sink.repeats import ROW_ID
from pyspark_rmqpull.sink.targets import checked
from pyspark_rmqpull.sink.task import LOGGED_ROWS_MAX, SinkTask, TaskCommit
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.grpc.producer import Producer, TransactionId
from tests.harness.fake_producer import FakeProducer

BATCH = TransactionId("query", 7)
AT_LEAST_ONCE = {"delivery": "at-least-once"}
DEAD = {"onInvalidRow": "deadLetter", "deadLetterTopic": "dead"}


def run(producer: FakeProducer, *batches: dict[str, Any], **options: str) -> TaskCommit:
    given = SinkOptions.from_options({"endpoints": "a:1", "topic": "orders"} | options)
    settled = checked(cast("Producer", producer), given, ["body"])
    task = SinkTask(cast("Producer", producer), settled, BATCH, 3, "s")
    return task.run(iter([pa.record_batch(batch) for batch in batches]))


def test_a_task_of_a_transaction_names_its_stage_and_its_calls(producer: FakeProducer) -> None:
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


def test_a_task_tells_all_its_rows_also_when_its_micro_batch_is_committed_already(producer: FakeProducer) -> None:
    """Whether it is the same micro-batch, the commit must find out."""
    first = run(producer, {"body": [b"1", b"2"]}, {"body": [b"3"]}, inFlight="1")
    producer.is_committed = True
    again = run(producer, {"body": [b"3", b"1"]}, {"body": [b"2"]}, inFlight="1")
    assert (again.written, len(producer.kept)) == (first.written, 1)
    assert run(producer, {"body": [b"1", b"2"]}, {"body": [b"4"]}, inFlight="1").written != first.written


def test_rows_count_for_the_record_as_they_come_valid_or_not(producer: FakeProducer) -> None:
    whole = run(producer, {"body": [b"1", b"22"]})
    skipped = run(producer, {"body": [b"1", b"22"]}, onInvalidRow="skip", maxMessageSize="1")
    assert (skipped.invalid_count, skipped.written) == (1, whole.written)


@pytest.mark.parametrize("extensions", [{"columns", "stages"}, {"columns"}, set()])
def test_at_least_once_gives_every_message_its_id(producer: FakeProducer, extensions: set[str]) -> None:
    producer.extensions = frozenset(extensions)
    done = run(producer, {"body": [b"1", b"2"]}, **AT_LEAST_ONCE)
    assert done == TaskCommit(BATCH, None, 0, 2, 0)
    assert len({own[ROW_ID] for own in producer.properties}) == 2


def test_an_invalid_row_ends_the_write_and_is_named(producer: FakeProducer) -> None:
    with pytest.raises(InvalidRowError) as ended:
        run(producer, {"body": [b"12345"], "tags": ["Paid"], "keys": ["No. 1"]}, maxMessageSize="4", topic="orders")
    assert str(ended.value) == (
        "A row for topic orders with tags 'Paid', keys ['No.', '1'], a body of 5 bytes is no message: its body has "
        "more than maxMessageSize=4 bytes. Mend the row, or set option onInvalidRow to skip or deadLetter."
    )


def test_invalid_rows_are_left_out_counted_and_told_up_to_a_limit(
    producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    producer.bad = {b"bad"}
    with caplog.at_level(logging.WARNING):
        done = run(producer, {"body": [b"1", None, b"bad", *[b""] * 20]}, onInvalidRow="skip")
    assert (done.row_count, done.invalid_count) == (23, 22)
    assert producer.in_order == [b"1"]
    assert len(caplog.messages) == LOGGED_ROWS_MAX + 1
    assert caplog.messages[-1] == "22 rows of this task were invalid"


def test_invalid_rows_go_to_the_dead_letter_topic(producer: FakeProducer) -> None:
    producer.types["dead"] = {"NORMAL"}
    done = run(producer, {"body": [b"1", None]}, **DEAD)
    assert producer.in_order == [b"1", b"(no body)"]
    assert producer.properties[-1][REASON] == "its body is null"
    assert (done.row_count, done.invalid_count) == (2, 1)


def test_a_dead_letter_that_is_refused_ends_the_write(producer: FakeProducer) -> None:
    producer.types["dead"] = {"NORMAL"}
    producer.bad = {b"bad"}
    with pytest.raises(InvalidRowError, match="A row for topic dead with a body of 3 bytes is no message: A tag"):
        run(producer, {"body": [b"1", b"bad"]}, **DEAD)


@pytest.mark.parametrize(
    ("types", "given", "sentence"),
    [
        (
            {},
            {},
            "No topic orders. The sink creates no topic. Create it first, as with: rmqpull-broker topic create orders",
        ),
        ({"orders": {"TRANSACTION"}}, {}, "Topic orders takes transactional messages alone"),
        ({"orders": {"FIFO"}}, {}, "Topic orders takes FIFO messages alone, which need a column messageGroup."),
        ({"orders": {"DELAY"}}, {}, "Topic orders takes DELAY messages alone, which need a column deliveryTimestamp."),
        ({"orders": {"NORMAL"}, "dead": {"FIFO"}}, DEAD, "Topic dead takes no NORMAL messages"),
    ],
)
def test_topics_are_looked_at_before_anything_is_sent(
    producer: FakeProducer, types: dict[str, set[str]], given: dict[str, str], sentence: str
) -> None:
    producer.types = types
    with pytest.raises(OptionError, match=sentence):
        run(producer, {"body": [b"1"]}, **given)
    assert producer.kept == []


@pytest.mark.parametrize(
    ("extensions", "given", "sentence"),
    [
        ({"columns"}, {"delivery": "exactly-once"}, "Use rmqpull-broker, or at-least-once."),
        (set(), {"queueSelector": "hash"}, "Option queueSelector is hash, .* Leave it at roundRobin"),
        (set(), {"queueSelector": "explicit"}, "Option queueSelector is explicit, .* Leave it at roundRobin"),
        (set(), {"compressType": "LZ4"}, "Option compressType is LZ4, .* Leave it at ZLIB."),
    ],
)
def test_what_the_server_cannot_do_is_refused_with_advice(
    producer: FakeProducer, extensions: set[str], given: dict[str, str], sentence: str
) -> None:
    producer.extensions = frozenset(extensions)
    with pytest.raises(OptionError, match=sentence):
        run(producer, {"body": [b"1"]}, **given)


@pytest.mark.parametrize(
    ("extensions", "given", "delivery"),
    [
        ({"columns", "stages"}, None, "exactly-once"),
        ({"columns", "stages"}, "at-least-once", "at-least-once"),
        ({"columns"}, None, "at-least-once"),
        (set(), None, "at-least-once"),
    ],
)
def test_the_delivery_is_settled_before_tasks_begin(
    producer: FakeProducer, extensions: set[str], given: str | None, delivery: str
) -> None:
    producer.extensions = frozenset(extensions)
    options = SinkOptions.from_options({"endpoints": "a:1"} | ({"delivery": given} if given else {}))
    assert checked(cast("Producer", producer), options, ["body"]).delivery == delivery
