"""The protocols of rmqpull: apache.rocketmq.v2 and the extension rmqpull.v1."""

__version__ = "0.1.0"
