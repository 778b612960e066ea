"""UpdateOffset, GetOffset and QueryOffset: consumer offsets, and the bounds of queues."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.pulling import consumer_offsets
from rmqpull_broker.core.pulling.bounds import find_offset_at_time
from rmqpull_broker.server.grpc.wire.codec import milliseconds_from, name_from, queue_from
from rmqpull_broker.server.grpc.wire.status import OK, PREVIOUSLY_RESET
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def update_offset(service: Service, request: rpc.UpdateOffsetRequest, caller: Caller) -> rpc.UpdateOffsetResponse:
    """UpdateOffset: sets a group's consumer offset on one queue (rules 3.5.1).

    Responds once the offset is stored. While a reset is pending the offset is ignored, and the response says so.
    """
    caller.require_client_id()
    group, queue = name_from(request.group), queue_from(request.message_queue, service.state.broker_names[0])
    is_stored = await service.group_commit.execute(
        lambda draft: consumer_offsets.update_offset(draft, group, queue, request.offset)
    )
    return rpc.UpdateOffsetResponse(status=OK if is_stored else PREVIOUSLY_RESET)


async def get_offset(service: Service, request: rpc.GetOffsetRequest, caller: Caller) -> rpc.GetOffsetResponse:
    """GetOffset: returns a group's consumer offset on one queue (rules 3.5.2, 6.1).

    Neither the group nor the topic has to exist. Without an offset the response is OFFSET_NOT_FOUND.
    """
    caller.require_client_id()
    queue = queue_from(request.message_queue, service.state.broker_names[0])
    return rpc.GetOffsetResponse(status=OK, offset=service.state.find_consumer_offset(name_from(request.group), queue))


async def query_offset(service: Service, request: rpc.QueryOffsetRequest, caller: Caller) -> rpc.QueryOffsetResponse:
    """QueryOffset: returns a queue's min offset, its max offset, or the offset of a store time (rules 3.11).

    END is the offset of the next message. TIMESTAMP finds the first message that was stored at that time or later.
    """
    caller.require_client_id()
    queue = queue_from(request.message_queue, service.state.broker_names[0])
    topic = service.state.require_topic(queue.topic)
    if not service.state.is_readable(topic, queue):
        raise BadRequest(f"queueId[{queue.queue_id}] is illegal, topic:[{topic.name}] has no queue {queue}")
    bounds = service.state.bounds(queue)
    if request.query_offset_policy == v2.QueryOffsetPolicy.BEGINNING:
        offset = bounds.min_offset
    elif request.query_offset_policy == v2.QueryOffsetPolicy.END:
        offset = bounds.max_offset
    elif request.HasField("timestamp"):
        offset = find_offset_at_time(service.state, queue, milliseconds_from(request.timestamp))
    else:
        raise BadRequest("the policy TIMESTAMP needs a timestamp")
    return rpc.QueryOffsetResponse(status=OK, offset=offset)
