"""UpdateOffset: sets a group's consumer offset on one queue (rules 3.5.1)."""

from __future__ import annotations

from rmqpull_broker.core.pulling.consumer_offsets import update_offset
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import name_of, queue_from
from rmqpull_broker.server.wire.status import OK, PREVIOUSLY_RESET
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.UpdateOffsetRequest, caller: Caller) -> rpc.UpdateOffsetResponse:
    """Answers when the offset is kept; while a reset is pending it is ignored, and the answer says so."""
    caller.require_client_id()
    group, queue = name_of(request.group), queue_from(request.message_queue, service.state.broker_names[0])
    is_taken = await service.group_commit.execute(lambda draft: update_offset(draft, group, queue, request.offset))
    return rpc.UpdateOffsetResponse(status=OK if is_taken else PREVIOUSLY_RESET)
