"""Helpers that several administrative requests share: subscriptions, topics that must exist, permission to change."""

from __future__ import annotations

from typing import Any

from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.errors import Forbidden, TopicNotFound
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.sending.queue_selection import hash_like_java
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.remoting.calls import RemotingCall, RemotingService
from rmqpull_proto.remoting.codes import RequestCode


def require_topic(state: BrokerState, name: str) -> TopicConfig:
    """Returns a topic. Raises TopicNotFound, with the text of requests about its queues."""
    topic = state.find_topic(name)
    if topic is None:
        raise TopicNotFound(f"topic[{name}] not exist")
    return topic


def find_refusal(service: RemotingService, call: RemotingCall, what: str) -> Forbidden | None:
    """Returns the error for a request that would change ``what``; None if its peer may do so."""
    name = RequestCode(call.command.code).name
    return service.access.find_refusal(name, call.peer.remote_address, what)


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
