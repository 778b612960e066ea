"""Writes twice per micro-batch: the messages to one topic, and their number per tag to another.

usage: python examples/for_each_batch.py ENDPOINTS FOLDER

    rmqpull-broker serve --listen 127.0.0.1:8081 --topic orders:4 --topic copies:4 --topic counts:1
    rmqpull-broker send orders --tag paid --body hello
    python examples/for_each_batch.py 127.0.0.1:8081 ./for-each-batch

Each write adds all of its rows or none. But if Spark runs a micro-batch again, it writes the rows again:
``foreachBatch`` is at least once. For exactly once, use ``writeStream.format("rmqpull")``.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession


def main(endpoints: str, folder: Path) -> None:
    """Copies and counts all messages in the topic."""
    spark = SparkSession.builder.appName("for each batch").getOrCreate()
    source = spark.readStream.format("rmqpull").option("endpoints", endpoints).option("startingOffsets", "earliest")

    def write(messages: DataFrame, batch_id: int) -> None:
        messages.persist()
        counts = messages.groupBy("tags").count().selectExpr("tags", "CAST(count AS STRING) AS body")
        counts = counts.coalesce(1)  # there are few rows, so one task writes them
        for rows, topic in ((messages, "copies"), (counts, "counts")):
            rows.write.format("rmqpull").option("endpoints", endpoints).option("topic", topic).mode("append").save()
        messages.unpersist()

    query = (
        source.option("topic", "orders")
        .load()
        .writeStream.foreachBatch(write)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
