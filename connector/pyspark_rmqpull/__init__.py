"""RocketMQ for Apache Spark: ``spark.readStream.format("rmqpull")``.

Spark imports every top-level ``pyspark_*`` package and registers its ``DefaultSource``. If one such import fails, no
Python data source of the session is found; so nothing here imports more than pyspark and the standard library.
"""

from pyspark_rmqpull.source import RmqpullDataSource as DefaultSource

__version__ = "0.1.0"

__all__ = ["DefaultSource"]
