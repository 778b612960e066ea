"""Consumers that are members of a consumer group, over RocketMQ's remoting protocol.

``docs/consumers.md`` shows how to use them.
"""

from rmqpull_client.consumers.lite_pull import LitePullConsumer
from rmqpull_client.consumers.messages import ReceivedMessage
from rmqpull_client.consumers.settings import LitePullSettings

__all__ = ["LitePullConsumer", "LitePullSettings", "ReceivedMessage"]
