"""CommitStages: the messages of a transaction become readable, all of them or none, once."""

from __future__ import annotations

from rmqpull_broker.core.sending import staging
from rmqpull_broker.core.sending.commits import Outcome
from rmqpull_broker.core.state.facts import CommitRecord
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import batch_id_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc


async def answer(service: Service, request: rpc.CommitStagesRequest, caller: Caller) -> rpc.CommitStagesResponse:
    """Answers when everything that the transaction holds can be read, also when an earlier call had committed it."""
    batch = batch_id_of(request.transaction)
    named = [staging.CommittedStage(stage.stage_id, stage.call_count) for stage in request.stages]
    record = _record_of(request.record) if request.HasField("record") else None
    outcome = await service.group_commit.execute(lambda draft: staging.commit(draft, batch, named, record))
    await service.stage_work.stored(batch)
    return rpc.CommitStagesResponse(
        status=OK, was_committed=outcome is not Outcome.NEW, was_compared=outcome is Outcome.DONE
    )


def _record_of(record: rpc.CommitRecord) -> CommitRecord:
    return CommitRecord(record.plan, record.destination, record.row_count, record.digest)
