"""Continues a query with the trigger AvailableNow: read_on.py ENDPOINTS TOPIC CHECKPOINT [fails].

It prints the release of Spark, the bodies of each micro-batch, and its error if it should fail.
"""

from __future__ import annotations

import json
import sys

import pyspark
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

WAIT_S = 180
endpoints, topic, checkpoint, *fails = sys.argv[1:]
batches: dict[int, list[str]] = {}


def keep(batch: DataFrame, batch_id: int) -> None:
    if fails:
        raise RuntimeError("the sink is full")
    batches[batch_id] = sorted(row["body"] for row in batch.collect())


session = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
options = {"endpoints": endpoints, "topic": topic, "startingOffsets": "earliest", "consumerGroup": "moving"}
stream = session.readStream.format("rmqpull").options(**options).load().selectExpr("CAST(body AS STRING) AS body")
query = stream.writeStream.foreachBatch(keep).option("checkpointLocation", checkpoint).trigger(availableNow=True)
failed = False
try:
    assert query.start().awaitTermination(WAIT_S)
except StreamingQueryException as error:
    failed = "the sink is full" in str(error)
print(json.dumps({"pyspark": pyspark.__version__, "batches": batches, "failed": failed}))
