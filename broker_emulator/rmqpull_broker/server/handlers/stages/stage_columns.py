"""StageColumns: a batch of messages that is kept, and seen by nobody until its stage is committed."""

from __future__ import annotations

from rmqpull_broker.core.sending import staging
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import batch_id_of
from rmqpull_broker.server.wire.published import published_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc


async def answer(service: Service, request: rpc.StageColumnsRequest, caller: Caller) -> rpc.StageColumnsResponse:
    """Answers when the batch is kept."""
    batch = batch_id_of(request.transaction)
    service.stage_work.check(request.timeout_ms)
    published = published_of(request, caller.host)
    is_staged = await service.group_commit.execute(
        lambda draft: staging.stage(
            draft,
            service.sender,
            batch,
            request.stage_id,
            request.sequence,
            published,
            service.clock_ms(),
            request.timeout_ms,
        ),
        len(request.arrow_ipc),
    )
    service.stage_work.keep(batch, request.timeout_ms)
    return rpc.StageColumnsResponse(status=OK, is_committed=not is_staged)
