"""GetClock: what the broker's clock tells."""

from __future__ import annotations

from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.GetClockRequest, caller: Caller) -> rpc.GetClockResponse:
    """Tells the time that the next message is stamped with, and whether it stands still."""
    machine = service.time_machine
    return rpc.GetClockResponse(status=OK, now_ms=machine.now_ms(), is_manual=machine.is_manual)
