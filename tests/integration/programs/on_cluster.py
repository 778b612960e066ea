"""An application on a cluster: a batch read, and a stream into Parquet. Each row tells which worker has read it.

``on_cluster.py ENDPOINTS TOPIC FOLDER`` writes its rows to ``FOLDER/batch.json`` and ``FOLDER/stream.json``. Every task
makes a file in ``FOLDER/batch/`` or ``FOLDER/stream/`` with the name of its worker, and waits for a file ``go`` there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import udf

WAIT_S = 180


def _with_worker(messages: DataFrame, meeting: Path) -> DataFrame:
    meeting.mkdir()
    wait_s = 120

    def at_worker(_: int) -> str:
        import time

        # An executor works in a folder below that of its worker.
        worker = next(part for part in Path.cwd().parts if part.startswith("worker-"))
        (meeting / worker).touch()
        give_up = time.monotonic() + wait_s
        while not (meeting / "go").exists():
            if time.monotonic() > give_up:
                raise TimeoutError(f"There is no {meeting / 'go'} after {wait_s} s.")
            time.sleep(0.05)
        return worker

    columns = ("queueId", "queueOffset", "CAST(body AS STRING) AS body")
    return messages.selectExpr(*columns).withColumn("worker", udf(at_worker)("queueId"))


def _keep(rows: DataFrame, file: Path) -> None:
    file.write_text(json.dumps([row.asDict() for row in rows.collect()]))


def main(endpoints: str, topic: str, folder: Path) -> None:
    spark = SparkSession.builder.getOrCreate()
    options = {"endpoints": endpoints, "topic": topic, "startingOffsets": "earliest"}
    messages = spark.read.format("rmqpull").options(**options).load()
    _keep(_with_worker(messages, folder / "batch"), folder / "batch.json")

    stream = spark.readStream.format("rmqpull").options(**options).load()
    writer = _with_worker(stream, folder / "stream").writeStream.format("parquet")
    writer = writer.option("path", str(folder / "rows")).option("checkpointLocation", str(folder / "checkpoint"))
    assert writer.trigger(availableNow=True).start().awaitTermination(WAIT_S)
    _keep(spark.read.parquet(str(folder / "rows")), folder / "stream.json")
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
