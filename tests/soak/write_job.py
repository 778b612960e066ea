"""A batch write that a test kills, a process of its own: ``rows`` messages in four tasks."""

from __future__ import annotations

import json
import sys
from typing import Any

from pyspark.sql import SparkSession


def main(config: dict[str, Any]) -> None:
    """Writes the rows."""
    spark = SparkSession.builder.master("local[2]").appName("write").getOrCreate()
    frame = spark.range(0, config["rows"], numPartitions=4).selectExpr("string(id) AS body")
    frame.write.format("rmqpull").options(**config["options"]).mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
