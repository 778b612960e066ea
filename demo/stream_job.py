"""The Spark job, a process of its own: from the topic into Parquet files, in several micro-batches.

It prints a line of JSON for each event, for the process that started it. It can be killed at any time and started again
with the same arguments: it continues from the checkpoint.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping

import click
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

FLIGHT = """
    row BIGINT, year BIGINT, month BIGINT, day BIGINT, dep_time BIGINT, sched_dep_time BIGINT, dep_delay BIGINT,
    arr_time BIGINT, sched_arr_time BIGINT, arr_delay BIGINT, carrier STRING, flight BIGINT, tailnum STRING,
    origin STRING, dest STRING, air_time BIGINT, distance BIGINT, hour BIGINT, minute BIGINT, time_hour STRING
"""
# How often the progress of the query is read. Spark's listeners would need a thread and a port of their own.
POLL_SECONDS = 0.05


def say(event: str, **facts: int) -> None:
    """Reports an event to the process that started this one."""
    print(json.dumps({"event": event, **facts}), flush=True)


def flights(spark: SparkSession, server: Mapping[str, str], group: str, rows_per_batch: int) -> DataFrame:
    """Returns the topic as a stream of flights, each with its queue and offset."""
    messages = (
        spark.readStream.format("rmqpull")
        .options(**server)
        .option("topic", "flights")
        .option("consumerGroup", group)
        .option("startingOffsets", "earliest")
        .option("numPartitions", 3)
        .option("maxOffsetsPerTrigger", rows_per_batch)
        .option("requestTimeoutMs", 30_000)  # as long as a restart of the broker may take
        .load()
    )
    return messages.selectExpr(
        f"from_json(string(body), '{FLIGHT}', map('mode', 'FAILFAST')) AS flight",
        "queueId",
        "queueOffset",
        "tags AS tag",
        "get(keys, 0) AS key",
        "spark_partition_id() AS partitionId",
    ).select("flight.*", "queueId", "queueOffset", "tag", "key", "partitionId")


def report_progress(query: StreamingQuery) -> None:
    """Reports each micro-batch soon after its end, until the query has read everything."""
    last = -1
    ended = False
    while not ended:
        ended = bool(query.awaitTermination(POLL_SECONDS))  # type: ignore[arg-type]  # whole seconds only by its annotation
        for progress in query.recentProgress:
            if progress.batchId > last and progress.numInputRows:
                last = progress.batchId
                say("batch", id=last, rows=progress.numInputRows, ms=progress.batchDuration)


@click.command()
@click.option("--server", type=(str, str), multiple=True, required=True, help="An option that leads to the server.")
@click.option("--group", required=True)
@click.option("--rows-per-batch", required=True, type=int)
@click.option("--result", required=True)
@click.option("--checkpoint", required=True)
def main(server: tuple[tuple[str, str], ...], group: str, rows_per_batch: int, result: str, checkpoint: str) -> None:
    """Stream everything that the topic had at the start into the result."""
    spark = SparkSession.builder.master("local[2]").appName("flights").getOrCreate()
    stream = flights(spark, dict(server), group, rows_per_batch)
    say("started")
    query = (
        stream.writeStream.format("parquet")
        .option("path", result)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    report_progress(query)
    say("done")
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
