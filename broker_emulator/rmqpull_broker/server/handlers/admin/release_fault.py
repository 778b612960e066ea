"""ReleaseFault: lets calls go on that a fault rule holds or delays."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.ReleaseFaultRequest, caller: Caller) -> rpc.ReleaseFaultResponse:
    """The rule stays, and strikes the next calls as before."""
    if request.calls < 0:
        raise BadRequest(f"{request.calls} calls cannot be released: name how many, or 0 for all")
    service.faults.release(request.id, request.calls or None)
    return rpc.ReleaseFaultResponse(status=OK)
