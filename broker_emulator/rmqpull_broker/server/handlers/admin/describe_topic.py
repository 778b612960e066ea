"""DescribeTopic: one topic with the bounds of every queue and the groups that have progress on it."""

from __future__ import annotations

from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.bounds import store_time_ms
from rmqpull_broker.core.pulling.progress import groups_on
from rmqpull_broker.server.handlers.admin.codec import topic_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.DescribeTopicRequest, caller: Caller) -> rpc.DescribeTopicResponse:
    """Tells the queues that consumers or producers see."""
    state = service.state
    topic = state.topic(request.name)
    queues = state.queues(topic, max(topic.read_queue_nums, topic.write_queue_nums))
    return rpc.DescribeTopicResponse(
        status=OK,
        topic=topic_to(topic, is_system=topic.name in state.system_topics),
        queues=[_queue_to(service, topic, queue) for queue in queues],
        groups=groups_on(state, topic.name),
    )


def _queue_to(service: Service, topic: TopicConfig, queue: MessageQueue) -> rpc.TopicQueue:
    bounds = service.state.bounds(queue)
    has_messages = bounds.min_offset < bounds.max_offset
    return rpc.TopicQueue(
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        is_readable=topic.is_readable and queue.queue_id < topic.read_queue_nums,
        is_writable=topic.is_writable and queue.queue_id < topic.write_queue_nums,
        min_offset=bounds.min_offset,
        max_offset=bounds.max_offset,
        oldest_store_timestamp_ms=store_time_ms(service.state, queue, bounds.min_offset) if has_messages else None,
        newest_store_timestamp_ms=store_time_ms(service.state, queue, bounds.max_offset - 1) if has_messages else None,
    )
