"""A client of a Spark Connect server: a batch read, a view in SQL, a stream, and a wrong option.

``over_connect.py REMOTE ENDPOINTS TOPIC FOLDER`` writes its results to ``FOLDER/seen.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

WAIT_S = 180


def _bodies(messages: DataFrame) -> list[str]:
    return sorted(row["body"] for row in messages.selectExpr("CAST(body AS STRING) AS body").collect())


def main(remote: str, endpoints: str, topic: str, folder: Path) -> None:
    seen: dict[str, Any] = {}
    spark = SparkSession.builder.remote(remote).getOrCreate()
    options = {"endpoints": endpoints, "topic": topic, "startingOffsets": "earliest"}
    seen["batch"] = _bodies(spark.read.format("rmqpull").options(**options).load())

    spark.sql(f"CREATE TEMPORARY VIEW v USING rmqpull OPTIONS (endpoints '{endpoints}', topic '{topic}')")
    seen["view"] = _bodies(spark.table("v"))

    stream = spark.readStream.format("rmqpull").options(**options, consumerGroup="over-connect").load()
    kept = str(folder / "kept")
    writer = stream.writeStream.format("parquet").option("path", kept)
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    for _ in range(2):  # the second run sets the group's offsets of the first one on PySpark 4.0 and 4.1
        assert writer.trigger(availableNow=True).start().awaitTermination(WAIT_S)
    seen["stream"] = _bodies(spark.read.parquet(kept))

    try:
        spark.read.format("rmqpull").options(endpoints=endpoints, topics=topic).load().schema  # noqa: B018  # asks the server
    except AnalysisException as refusal:
        seen["refusal"] = str(refusal)
    # The server looks up the source, so its client needs nothing but Spark.
    seen["client's own modules"] = sorted(name for name in sys.modules if "rmqpull" in name)
    (folder / "seen.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
