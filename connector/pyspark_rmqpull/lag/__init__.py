"""How far queries are behind, for people and for Prometheus."""

from pyspark_rmqpull.lag.behind import QueryLag, QueueLag, lag
from pyspark_rmqpull.lag.listener import RmqpullLagListener

__all__ = ["QueryLag", "QueueLag", "RmqpullLagListener", "lag"]
