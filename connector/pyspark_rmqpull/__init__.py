"""RocketMQ for Apache Spark: ``spark.readStream.format("rmqpull")``.

Spark imports every top-level ``pyspark_*`` package and registers its ``DefaultSource``. If one such import fails, Spark
finds no Python data source at all (rules 7.11). So this package imports only pyspark and the standard library.
"""

from pyspark_rmqpull.draining import drain
from pyspark_rmqpull.source import RmqpullDataSource as DefaultSource

__version__ = "0.2.0.dev0"

__all__ = ["DefaultSource", "drain"]
