"""Readers drop rows that a task has sent again, in whatever order."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink import without_repeats
from pyspark_rmqpull.sink.task import SinkTask
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.choice import get_producer
from rmqpull_client.transports.port import TransactionId
from tests.harness.server_kinds import APACHE, COLUMNS_ADMIN, PROXY, make_params
from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import await_end
from tests.harness.spark_sink import ServeSink, SinkHarness

GUIDE = Path(__file__).parents[3] / "docs" / "writing.md"
BODIES = [b"%d" % (number // 2) for number in range(40)]  # every row comes twice: equal rows are not repeats


def send(sink: SinkHarness, bodies: list[bytes], partition_id: int = 0, batch_id: int | None = 7) -> None:
    """One attempt of a task."""
    given = {**sink.server.options, "topic": "orders", "delivery": "at-least-once"}
    options = SinkOptions.from_options(given)
    task = SinkTask(get_producer(options.connection), options, TransactionId("query", batch_id), partition_id, "s")
    task.run(iter([pa.record_batch({"body": bodies})]))


def send_all(sink: SinkHarness) -> list[bytes]:
    """Sends rows from a task that fails half-way and is retried with its rows in another order, from other tasks with
    equal rows, and from another producer. Returns the rows without repeats."""
    retried = random.Random(7).sample(BODIES, len(BODIES))
    send(sink, BODIES[:25])
    send(sink, retried)
    send(sink, BODIES, partition_id=1)
    send(sink, BODIES, batch_id=8)
    sink.server.send("orders", b"other", b"other")
    return sorted(BODIES * 3 + [b"other"] * 2)


def run_guide(sink: SinkHarness) -> tuple[DataFrame, DataFrame]:
    """Runs the example of docs/writing.md, and returns its batch and its stream."""
    (block,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    stream = sink.stream("orders", maxOffsetsPerTrigger="40")
    names: dict[str, Any] = {"messages": sink.batch("orders"), "stream": stream}
    exec(block, names)
    return names["once"], names["once_streamed"]


def test_a_batch_read_drops_repeats(serve: ServeSink) -> None:
    sink = serve({"orders": 3})
    wanted = send_all(sink)
    assert len(sink.bodies("orders")) == len(wanted) + 25
    rows, _ = run_guide(sink)
    assert rows.columns == sink.batch("orders").columns
    assert sorted(bytes(row["body"]) for row in rows.collect()) == wanted


@pytest.mark.parametrize("kind", make_params([COLUMNS_ADMIN, APACHE, PROXY]))
@needs_spark("AvailableNow within limits")
def test_a_stream_with_a_watermark_drops_repeats_of_earlier_batches_too(serve: ServeSink) -> None:
    sink = serve({"orders": 3})
    wanted = send_all(sink)
    _, rows = run_guide(sink)
    writer = rows.writeStream.format("memory").queryName("deduplicated")
    writer = writer.option("checkpointLocation", str(sink.checkpoint))
    await_end(writer.trigger(availableNow=True).start())
    assert sorted(bytes(row["body"]) for row in sink.spark.table("deduplicated").collect()) == wanted


@pytest.mark.parametrize("kind", make_params([COLUMNS_ADMIN, APACHE, PROXY]))
def test_rows_without_the_needed_columns_are_refused(serve: ServeSink) -> None:
    with pytest.raises(OptionError, match="the columns properties, topic, brokerName, queueId, queueOffset, which"):
        without_repeats(serve().batch("orders").select("body"))
