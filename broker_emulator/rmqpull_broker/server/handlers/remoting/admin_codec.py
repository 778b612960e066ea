"""What several requests of administrators tell: subscriptions, and topics that must exist."""

from __future__ import annotations

from typing import Any

from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.errors import TopicNotFound
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.sending.queue_selection import hash_like_java
from rmqpull_broker.core.state.broker_state import BrokerState


def require_topic(state: BrokerState, name: str) -> TopicConfig:
    """Returns a topic. Raises TopicNotFound, in the words of requests about its queues."""
    topic = state.find_topic(name)
    if topic is None:
        raise TopicNotFound(f"topic[{name}] not exist")
    return topic


def describe_subscription(data: SubscriptionData) -> dict[str, Any]:
    """Returns a subscription as Apache's SubscriptionData."""
    tags = sorted(data.tags)
    return {
        "classFilterMode": False,
        "codeSet": [hash_like_java(tag) for tag in tags],
        "expressionType": data.expression_type,
        "subString": data.expression,
        "subVersion": data.sub_version,
        "tagsSet": tags,
        "topic": data.topic,
    }
