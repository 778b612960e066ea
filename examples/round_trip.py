"""Reads, transforms and writes: one query with one checkpoint, from one topic to two others.

It writes exactly once if the broker supports that.

usage: python examples/round_trip.py ENDPOINTS FOLDER

    rmqpull-broker serve --listen 127.0.0.1:8081 --topic orders:4 --topic paid:4 --topic refused:4
    rmqpull-broker send orders --tag paid --body '{"id": 1, "amount": 250}'
    python examples/round_trip.py 127.0.0.1:8081 ./round-trip
    rmqpull-broker peek paid

It processes all messages and ends. Run it again when there are more: it continues from the checkpoint in FOLDER.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.functions import col, concat, get_json_object, lit, when


def main(endpoints: str, folder: Path) -> None:
    """Writes each order to the topic ``paid`` or ``refused``, depending on its amount, with its id as the tag."""
    spark = SparkSession.builder.appName("round trip").getOrCreate()
    orders = (
        spark.readStream.format("rmqpull")
        .option("endpoints", endpoints)
        .option("topic", "orders")
        .option("consumerGroup", "round-trip")
        .option("startingOffsets", "earliest")
        .load()
    )
    amount = get_json_object(col("body").cast("string"), "$.amount").cast("int")
    answers = orders.select(
        when(amount > 100, lit("paid")).otherwise(lit("refused")).alias("topic"),
        "body",
        "keys",
        concat(lit("order-"), get_json_object(col("body").cast("string"), "$.id")).alias("tags"),
    )
    query = (
        answers.writeStream.format("rmqpull")
        .option("endpoints", endpoints)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    print(f"written: {sum(progress.sink.numOutputRows for progress in query.recentProgress)}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
