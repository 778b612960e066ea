"""AdvanceClock: lets time pass on a manual clock."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.AdvanceClockRequest, caller: Caller) -> rpc.AdvanceClockResponse:
    """Whatever falls due on the way has been done when this answers."""
    target = request.WhichOneof("target")
    if target is None:
        raise BadRequest("the clock is advanced by a duration or to a time: neither was given")
    by_ms = request.by_ms if target == "by_ms" else request.to_ms - service.time_machine.now_ms()
    return rpc.AdvanceClockResponse(status=OK, now_ms=await service.time_machine.advance(by_ms))
