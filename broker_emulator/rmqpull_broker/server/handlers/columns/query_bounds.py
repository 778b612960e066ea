"""QueryBounds: all queues of many topics with their bounds, in one consistent picture."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import TopicNotFound
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK, status_of
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc

_INT64_MAX = (1 << 63) - 1


async def answer(service: Service, request: rpc.QueryBoundsRequest, caller: Caller) -> rpc.QueryBoundsResponse:
    """A topic that does not exist is said so in its own entry; the others are answered all the same."""
    rows_lost = service.state.rows_lost(request.query_id) if request.query_id else {}
    topics = [_topic_bounds(service, asked, rows_lost) for asked in request.topics]
    return rpc.QueryBoundsResponse(status=OK, topics=topics)


def _topic_bounds(
    service: Service, asked: rpc.TopicBoundsRequest, rows_lost: Mapping[MessageQueue, int]
) -> rpc.TopicBounds:
    try:
        topic = service.state.topic(asked.topic)
    except TopicNotFound as error:
        return rpc.TopicBounds(status=status_of(error), topic=asked.topic)
    queues = [_queue_bounds(service, queue, rows_lost.get(queue, 0)) for queue in service.state.readable_queues(topic)]
    return rpc.TopicBounds(status=OK, topic=topic.name, creation_id=topic.creation_id, queues=queues)


def _queue_bounds(service: Service, queue: MessageQueue, rows_lost: int) -> rpc.QueueBounds:
    bounds = service.state.bounds(queue)
    return rpc.QueueBounds(
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        min_offset=bounds.min_offset,
        max_offset=bounds.max_offset,
        rows_lost=min(rows_lost, _INT64_MAX),
    )
