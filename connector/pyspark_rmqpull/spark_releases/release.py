"""What the installed Spark has, and the classes to derive from. Older Sparks get stand-ins for what they lack."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

import pyspark

SPARK = f"PySpark {pyspark.__version__}"
"""The name of this release, for errors."""
SPARK_PASSES_LIMITS = find_spec("pyspark.sql.streaming.datasource") is not None
"""Whether Spark passes the start and the limit of each micro-batch to ``latestOffset()``: from PySpark 4.2 on."""

if TYPE_CHECKING or SPARK_PASSES_LIMITS:
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
else:
    from pyspark_rmqpull.spark_releases.stand_ins import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxRows,
        SupportsTriggerAvailableNow,
    )

try:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
except ImportError:  # PySpark 4.0
    from pyspark_rmqpull.spark_releases.stand_ins import DataSourceStreamArrowWriter  # type: ignore[assignment]

__all__ = [
    "SPARK",
    "SPARK_PASSES_LIMITS",
    "DataSourceStreamArrowWriter",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "SupportsTriggerAvailableNow",
]
