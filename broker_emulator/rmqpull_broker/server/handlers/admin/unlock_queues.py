"""UnlockQueues: gives up queue locks, as UNLOCK_BATCH_MQ does (rules 3.8)."""

from __future__ import annotations

from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.UnlockQueuesRequest, caller: Caller) -> rpc.UnlockQueuesResponse:
    """What the client does not hold is no error."""
    queues = [column_queue_from(queue) for queue in request.queues]
    service.clients.locks.unlock_batch(request.group, request.client_id, queues)
    return rpc.UnlockQueuesResponse(status=OK)
