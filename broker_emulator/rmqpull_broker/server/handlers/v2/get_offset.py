"""GetOffset: a group's consumer offset on one queue (rules 3.5.2, 6.1)."""

from __future__ import annotations

from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import name_of, queue_from
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.GetOffsetRequest, caller: Caller) -> rpc.GetOffsetResponse:
    """Neither the group nor the topic needs to exist: without an offset the answer is OFFSET_NOT_FOUND."""
    caller.require_client_id()
    queue = queue_from(request.message_queue, service.state.broker_names[0])
    return rpc.GetOffsetResponse(status=OK, offset=service.state.consumer_offset(name_of(request.group), queue))
