"""QueryOffset: where a queue begins, where it ends, and which offset a store time has (rules 3.11)."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.pulling.bounds import offset_at_time
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import milliseconds_from, queue_from
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.QueryOffsetRequest, caller: Caller) -> rpc.QueryOffsetResponse:
    """END is the offset that the next message gets; TIMESTAMP finds the first message stored then or later."""
    caller.require_client_id()
    queue = queue_from(request.message_queue, service.state.broker_names[0])
    topic = service.state.topic(queue.topic)
    if not service.state.is_readable(topic, queue):
        raise BadRequest(f"queueId[{queue.queue_id}] is illegal, topic:[{topic.name}] has no queue {queue}")
    bounds = service.state.bounds(queue)
    if request.query_offset_policy == v2.QueryOffsetPolicy.BEGINNING:
        offset = bounds.min_offset
    elif request.query_offset_policy == v2.QueryOffsetPolicy.END:
        offset = bounds.max_offset
    elif request.HasField("timestamp"):
        offset = offset_at_time(service.state, queue, milliseconds_from(request.timestamp))
    else:
        raise BadRequest("the policy TIMESTAMP needs a timestamp")
    return rpc.QueryOffsetResponse(status=OK, offset=offset)
