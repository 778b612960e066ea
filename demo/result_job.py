"""Reads the result in a process of its own, as any Spark program would, and passes it on in Arrow files.

Spark reads it, since only the log of the sink tells which Parquet files a killed micro-batch has left.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.feather
from pyspark.sql import SparkSession


@click.command()
@click.option("--result", required=True)
@click.option("--rows", required=True, type=Path)
@click.option("--summary", required=True, type=Path)
def main(result: str, rows: Path, summary: Path) -> None:
    """Write all rows, and Spark's summary for each carrier."""
    spark = SparkSession.builder.master("local[2]").appName("flights result").getOrCreate()
    found = spark.read.parquet(result).cache()
    pa.feather.write_feather(found.toArrow(), str(rows))
    found.createOrReplaceTempView("flights")
    by_carrier = spark.sql(
        """
        SELECT carrier, count(*) AS flights, avg(dep_delay) AS dep_delay, avg(arr_delay) AS arr_delay
        FROM flights GROUP BY carrier ORDER BY carrier
        """
    )
    pa.feather.write_feather(by_carrier.toArrow(), str(summary))
    spark.stop()


if __name__ == "__main__":
    sys.exit(main())
