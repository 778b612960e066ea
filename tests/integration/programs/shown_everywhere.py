"""Reads a topic in every way and prints all that Spark shows of it. It is a program, for its own log and events.

usage: python shown_everywhere.py FOLDER OPTION=VALUE ...
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

WAIT_S = 180


def show(*things: object) -> None:
    sys.stdout.write(f"{things}\n")


def main(folder: Path, options: dict[str, str]) -> None:
    """Yields all texts with a plan, an option or an error."""
    (folder / "events").mkdir()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.dir", f"file://{folder}/events")
        .config("spark.eventLog.compress", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("INFO")

    batch = spark.read.format("rmqpull").options(**options).load()
    batch.explain(True)
    batch.explain("formatted")
    show(batch.collect(), repr(batch), batch.schema)

    listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.sql(f"CREATE TEMPORARY VIEW seen USING rmqpull OPTIONS ({listed})")
    for statement in ("DESCRIBE EXTENDED seen", "EXPLAIN EXTENDED SELECT * FROM seen", "SELECT * FROM seen"):
        spark.sql(statement).show(200, truncate=False)
    spark.sql(f"EXPLAIN EXTENDED CREATE TEMPORARY VIEW planned USING rmqpull OPTIONS ({listed})").show(truncate=False)

    stream = spark.readStream.format("rmqpull").options(**options).load()
    stream.explain(True)
    writer = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(WAIT_S)
    show(query.lastProgress, query.status, query.recentProgress)
    query.explain(True)

    refused = spark.readStream.format("rmqpull").options(**options | {"accessKey": "stranger"}).load()
    with contextlib.suppress(PySparkException):  # Spark logs it
        assert refused.writeStream.format("noop").start().awaitTermination(WAIT_S)
    try:
        spark.read.format("rmqpull").options(**options | {"tlsCaFile": "/nowhere/ca.pem"}).load().collect()
    except PySparkException as error:
        show(str(error))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(argument.split("=", 1) for argument in sys.argv[2:]))
