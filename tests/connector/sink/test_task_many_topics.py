"""A task with many topics makes no more calls than its rows and bytes need, and the broker remembers little of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pyarrow as pa
import pytest

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.deliveries import BUFFERED_BYTES_MAX, ROWS_PER_CALL_MAX
from pyspark_rmqpull.sink.task import SinkTask
from rmqpull_broker.core.messages.columns import UNPLACED_SCHEMA
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.sending import stage_commands
from rmqpull_broker.core.state.stage_facts import ColumnsStaged, StagedPart
from rmqpull_broker.core.state.stage_facts import TransactionId as StagedTransaction
from rmqpull_broker.core.state.stages import Stages
from rmqpull_client.errors import RequestRefused
from rmqpull_client.transports.port import Producer, TransactionId
from tests.harness.fake_producer import FakeProducer

BATCH = TransactionId("query", 7)
TASK_ROWS = 100_000_000
"""The limit of one task according to docs/writing.md."""
QUEUES_PER_TOPIC = 4


def batches(count: int, topic_count: int, body: bytes, row_count: int = 10_000) -> Iterator[pa.RecordBatch]:
    """Arrow batches as Spark gives them, with rows of every topic in each."""
    names = [f"topic-{number % topic_count}" for number in range(row_count)]
    rows = pa.record_batch({"topic": pa.array(names), "body": pa.array([body] * row_count, pa.binary())})
    return (rows for _ in range(count))


def count_slices(row_count: int, rows_min: int) -> int:
    return max(1, min(row_count // rows_min, QUEUES_PER_TOPIC))


def run(producer: FakeProducer, given: Iterator[pa.RecordBatch], **options: str) -> int:
    """Stages batches, and returns the number of calls."""
    parsed = SinkOptions.from_options({"endpoints": "a:1", "delivery": "exactly-once"} | options)
    done = SinkTask(cast("Producer", producer), parsed, BATCH, 3, "s").run(given)
    assert len(producer.stored) == done.call_count
    return done.call_count


@pytest.mark.parametrize("topic_count", [1, 100, 1_000])
@pytest.mark.parametrize("body", [b"x" * 100, b"x" * 400], ids=["rows fill a call", "bytes fill a call"])
def test_a_hundred_million_rows_of_many_topics_are_within_the_limits_of_a_stage(
    producer: FakeProducer, topic_count: int, body: bytes
) -> None:
    producer.types = {f"topic-{number}": {"NORMAL"} for number in range(topic_count)}
    row_count = 40 * 10_000
    # As the sink does by itself once it has sent more than 1,024 rows to each queue.
    made = run(producer, batches(40, topic_count, body), minRecordsPerQueue="1024")
    calls_of_all = made * TASK_ROWS // row_count
    assert calls_of_all <= 1.1 * max(TASK_ROWS / ROWS_PER_CALL_MAX, TASK_ROWS * (len(body) + 4) / (4 << 20))
    stages = Stages()
    no_rows = pa.record_batch([pa.array([], field.type) for field in UNPLACED_SCHEMA], UNPLACED_SCHEMA)
    for sequence, (parts, slice_rows) in enumerate(zip(producer.parts, producer.slice_rows, strict=True)):
        # As the broker remembers them: so many queues of each topic get a slice.
        staged = tuple(
            StagedPart(MessageQueue(topic, "broker-a", queue_id), count, 0, 0)
            for topic, count in parts
            for queue_id in range(count_slices(count, slice_rows.get(topic, 1)))
        )
        stages.apply(ColumnsStaged(StagedTransaction("query", 7), "s", sequence, staged, 0, 0, no_rows))
    assert stages.state_bytes * TASK_ROWS / row_count <= stage_commands.STATE_BYTES_MAX
    assert TASK_ROWS <= stage_commands.STAGE_ROWS_MAX
    assert TASK_ROWS * len(body) <= stage_commands.STAGE_BYTES_MAX


def test_the_parts_of_each_topic_are_as_long_as_the_buffer_allows(producer: FakeProducer) -> None:
    producer.types = {f"topic-{number}": {"NORMAL"} for number in range(1_000)}
    run(producer, batches(64, 1_000, b"x" * 100))
    longest = max(count for parts in producer.parts for _, count in parts)
    assert longest >= 200  # Arrow batches have parts of 10 rows
    assert longest * 1_000 * 100 <= BUFFERED_BYTES_MAX + 100 * ROWS_PER_CALL_MAX


def test_small_batches_of_one_topic_fill_calls_too(producer: FakeProducer) -> None:
    assert run(producer, batches(1_000, 1, b"x", row_count=100), topic="orders") == 10
    assert producer.in_order == [b"x"] * 100_000


def test_a_server_that_takes_one_topic_per_call_gets_one_call_for_each_topic_in_the_buffer(
    producer: FakeProducer,
) -> None:
    producer.types = {f"topic-{number}": {"NORMAL"} for number in range(50)}
    producer.topics_per_call_max = 1
    assert run(producer, batches(20, 50, b"x" * 100)) == 50
    assert all(len(parts) == 1 for parts in producer.parts)


def test_an_error_names_some_of_the_topics_of_its_call(producer: FakeProducer) -> None:
    producer.types = {f"topic-{number}": {"NORMAL"} for number in range(50)}
    producer.failure = RequestRefused("FORBIDDEN", "topic[topic-9]: no writable queue")
    sentence = r"Cannot write rows to topics topic-0, topic-1, topic-2 and 47 more: topic\[topic-9\]: no writable"
    with pytest.raises(RequestRefused, match=sentence):
        run(producer, batches(1, 50, b"x"))
