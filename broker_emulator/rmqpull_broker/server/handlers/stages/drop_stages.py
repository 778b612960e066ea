"""DropStages: a transaction is given up."""

from __future__ import annotations

from rmqpull_broker.core.sending import staging
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import batch_id_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc


async def answer(service: Service, request: rpc.DropStagesRequest, caller: Caller) -> rpc.DropStagesResponse:
    """Answers when its stages are gone; those that are committed stay."""
    batch = batch_id_of(request.transaction)
    await service.execute(lambda draft: staging.drop(draft, batch))
    return rpc.DropStagesResponse(status=OK)
