"""LockQueues: takes or renews queue locks, as LOCK_BATCH_MQ does (rules 3.8)."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from, column_queue_to
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.LockQueuesRequest, caller: Caller) -> rpc.LockQueuesResponse:
    """Answers OK also when another client holds all of the queues."""
    if not request.group or not request.client_id:
        raise BadRequest("a lock needs the group and the client that it is for")
    queues = [column_queue_from(queue) for queue in request.queues]
    locked = service.clients.locks.lock_batch(request.group, request.client_id, queues, service.clock_ms())
    return rpc.LockQueuesResponse(status=OK, locked=map(column_queue_to, sorted(locked)))
