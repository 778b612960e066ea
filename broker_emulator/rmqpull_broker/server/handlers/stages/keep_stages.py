"""KeepStages: a transaction's stages live for another timeout."""

from __future__ import annotations

from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import batch_id_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc


async def answer(service: Service, request: rpc.KeepStagesRequest, caller: Caller) -> rpc.KeepStagesResponse:
    """Answers OK also when the transaction has no stages, or none any more: its commit will tell."""
    service.stage_work.check(request.timeout_ms)
    service.stage_work.keep(batch_id_of(request.transaction), request.timeout_ms)
    return rpc.KeepStagesResponse(status=OK)
