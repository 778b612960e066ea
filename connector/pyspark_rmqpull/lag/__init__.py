"""The lag of queries, for people and for Prometheus."""

from pyspark_rmqpull.lag.listener import RmqpullLagListener
from pyspark_rmqpull.lag.query_lag import QueryLag, QueueLag, lag

__all__ = ["QueryLag", "QueueLag", "RmqpullLagListener", "lag"]
