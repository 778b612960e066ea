"""ListTopics: all topics by name, each with the number of its messages."""

from __future__ import annotations

from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.server.handlers.admin.codec import topic_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.ListTopicsRequest, caller: Caller) -> rpc.ListTopicsResponse:
    """Topics that belong to the broker itself are told when asked for."""
    system = service.state.system_topics if request.with_system_topics else {}
    topics = {**system, **service.state.topics}
    return rpc.ListTopicsResponse(status=OK, topics=[_summary(service, topics[name]) for name in sorted(topics)])


def _summary(service: Service, topic: TopicConfig) -> rpc.TopicSummary:
    bounds = map(service.state.bounds, service.state.readable_queues(topic))
    return rpc.TopicSummary(
        topic=topic_to(topic, is_system=topic.name in service.state.system_topics),
        message_count=sum(last - first for first, last in bounds),
    )
