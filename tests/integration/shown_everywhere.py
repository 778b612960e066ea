"""Reads a topic in every way and prints whatever Spark shows of it: a program of its own, for its log and its events.

usage: python shown_everywhere.py FOLDER OPTION=VALUE ...
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession


def main(folder: Path, options: dict[str, str]) -> None:
    """Everything that shows a plan, an option or an error."""
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
    print(batch.collect(), repr(batch), batch.schema)

    listed = ", ".join(f"{name} '{value}'" for name, value in options.items())
    spark.createDataFrame([(listed.replace(options["secretKey"], "..."),)]).show(truncate=False)
    spark.sql(f"CREATE TEMPORARY VIEW seen USING rmqpull OPTIONS ({listed})")
    for statement in ("DESCRIBE EXTENDED seen", "EXPLAIN EXTENDED SELECT * FROM seen", "SELECT * FROM seen"):
        spark.sql(statement).show(200, truncate=False)
    spark.sql(f"EXPLAIN EXTENDED CREATE TEMPORARY VIEW planned USING rmqpull OPTIONS ({listed})").show(truncate=False)

    stream = spark.readStream.format("rmqpull").options(**options).load()
    stream.explain(True)
    writer = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    print(query.lastProgress, query.status, query.recentProgress)
    query.explain(True)

    for wrong in (
        {"tlsCaFile": "/nowhere/ca.pem"},
        {"accessKey": "stranger"},
        {"topic": "nothing"},
        {"secretKee": "1"},
    ):
        with contextlib.suppress(PySparkException):
            refused = spark.readStream.format("rmqpull").options(**options | wrong).load()
            refused.writeStream.format("noop").start().awaitTermination()
        try:
            spark.read.format("rmqpull").options(**options | wrong).load().collect()
        except PySparkException as error:
            print(error)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), dict(argument.split("=", 1) for argument in sys.argv[2:]))
