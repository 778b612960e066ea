"""ListLocks: queue locks that are in force (rules 3.8)."""

from __future__ import annotations

from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_to
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.ListLocksRequest, caller: Caller) -> rpc.ListLocksResponse:
    """By group and queue; expired locks are told no more."""
    locks, now_ms = service.clients.locks, service.clock_ms()
    told = [
        rpc.QueueLock(
            group=group,
            queue=column_queue_to(queue),
            client_id=lock.client_id,
            last_update_timestamp_ms=lock.last_update_ms,
        )
        for group in ([request.group] if request.group else locks.groups())
        for queue, lock in sorted(locks.held(group, now_ms).items())
    ]
    return rpc.ListLocksResponse(status=OK, locks=told)
