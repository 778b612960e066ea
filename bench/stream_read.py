"""How fast a stream is read, beside what Spark itself takes and beside the standard protocol, in one run.

Prints rows per second, the median of several interleaved runs with their spread, and the ratio to the engine's ceiling.
Absolute figures depend on the machine; ratios are what to compare.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import pyarrow as pa
from ceiling import BATCH_ROWS, CeilingSource, bodies
from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.table import Table

from pyspark_rmqpull.client import Connection, connect

QUEUES = 8
STANDARD_ROWS = 20_000
SELECTIONS = {"default row": None, "body only": "body BINARY"}


@contextmanager
def broker(data_dir: Path, *flags: str) -> Iterator[str]:
    """A broker process; gives its endpoints."""
    command = [sys.executable, "-m", "rmqpull_broker", "serve", "--listen", "127.0.0.1:0", "--data-dir", str(data_dir)]
    process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split("endpoints=")[1].split()[0]
    finally:
        process.terminate()
        process.wait()


def rows_per_second(stream: DataFrame, rows: int) -> float:
    """Reads a stream to its end into nothing; planning and the micro-batch's own cost count."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        begun = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took_s = time.perf_counter() - begun
        read = sum(progress["numInputRows"] for progress in query.recentProgress)
    if read != rows:
        raise SystemExit(f"read {read} rows instead of {rows}: the figure would mean nothing")
    return rows / took_s


def reader(spark: SparkSession, selection: str | None, endpoints: str, topic: str) -> DataFrame:
    """The source under test with its default options."""
    stream = spark.readStream.format("rmqpull").option("endpoints", endpoints).option("topic", topic)
    stream = stream.option("startingOffsets", "earliest")
    return (stream.schema(selection) if selection else stream).load()


def ceiling(spark: SparkSession, selection: str | None, rows: int, body_bytes: int) -> DataFrame:
    """As many ready rows in as many partitions."""
    stream = spark.readStream.format("ceiling").option("partitions", QUEUES).option("bodyBytes", body_bytes)
    stream = stream.option("batchesPerPartition", rows // QUEUES // BATCH_ROWS)
    return (stream.schema(selection) if selection else stream).load()


def publish(endpoints: str, topic: str, rows: int, body_bytes: int) -> None:
    """Fills a topic."""
    client = connect(Connection(endpoints, 30_000))
    batch = pa.RecordBatch.from_arrays([bodies(BATCH_ROWS, body_bytes)], ["body"])
    for _ in range(rows // BATCH_ROWS):
        client.publish(topic, batch)


@click.command()
@click.option("--rows", default=1_600_000, help="Rows of the columnar topic, a multiple of 80,000.")
@click.option("--body-bytes", default=100, help="Bytes of each body.")
@click.option("--runs", default=3, help="Counted runs of each measurement, after one that is not.")
def main(rows: int, body_bytes: int, runs: int) -> None:
    """Measures and prints a table."""
    # Spark's workers import the ceiling's module by its name.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    spark = SparkSession.builder.master("local[2]").getOrCreate()
    spark.dataSource.register(CeilingSource)
    results: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        with broker(data_dir, "--topic", f"rows:{QUEUES}", "--topic", f"few:{QUEUES}") as endpoints:
            publish(endpoints, "rows", rows, body_bytes)
            publish(endpoints, "few", STANDARD_ROWS, body_bytes)
            measured: dict[str, Callable[[], float]] = {}
            for name, selection in SELECTIONS.items():
                measured[f"engine ceiling, {name}"] = lambda selection=selection: rows_per_second(  # type: ignore[misc]
                    ceiling(spark, selection, rows, body_bytes), rows
                )
                measured[f"columns, {name}"] = lambda selection=selection: rows_per_second(  # type: ignore[misc]
                    reader(spark, selection, endpoints, "rows"), rows
                )
            results |= interleaved(measured, runs)
        with broker(data_dir, "--extensions", "none") as endpoints:
            standard = {
                "standard protocol, default row": lambda: rows_per_second(
                    reader(spark, None, endpoints, "few"), STANDARD_ROWS
                )
            }
            results |= interleaved(standard, runs)
    show(results)


def interleaved(measured: dict[str, Callable[[], float]], runs: int) -> dict[str, list[float]]:
    """Each measurement in turn, so that a machine that slows down slows them all; the first round warms up."""
    rounds = [{name: measure() for name, measure in measured.items()} for _ in range(runs + 1)]
    return {name: [figures[name] for figures in rounds[1:]] for name in measured}


def show(results: dict[str, list[float]]) -> None:
    """The table."""
    table = Table("work", "rows/s, median", "lowest", "highest", "of the ceiling")
    for name, figures in results.items():
        limit = statistics.median(results[f"engine ceiling, {name.split(', ')[1]}"])
        middle = statistics.median(figures)
        table.add_row(
            name, *(f"{figure:,.0f}" for figure in (middle, min(figures), max(figures))), f"{middle / limit:.2f}"
        )
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
