"""StageColumns, KeepStages, CommitStages and DropStages: transactions that are written exactly once."""

from __future__ import annotations

import logging

from rmqpull_broker.core.sending import stage_commands
from rmqpull_broker.core.sending.commits import Outcome
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.stage_facts import CommitRecord, TransactionId
from rmqpull_broker.server.grpc.wire.codec import transaction_id_from
from rmqpull_broker.server.grpc.wire.published import published_from
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import stages_pb2 as rpc

_logger = logging.getLogger(__name__)


async def stage_columns(service: Service, request: rpc.StageColumnsRequest, caller: Caller) -> rpc.StageColumnsResponse:
    """StageColumns: stores a batch of messages that nobody can read until its stage is committed.

    Responds once the batch is stored.
    """
    transaction_id = transaction_id_from(request.transaction)
    service.stage_keeper.check_timeout(request.timeout_ms)
    published = published_from(request, caller.address)
    (checked,) = await service.slices.collect(service.sender.check(published, service.clock_ms()))
    is_staged = await service.group_commit.execute(
        lambda draft: stage_commands.stage(
            draft,
            service.sender,
            transaction_id,
            request.stage_id,
            request.sequence,
            checked,
            service.clock_ms(),
            request.timeout_ms,
        ),
        len(request.arrow_ipc),
    )
    service.stage_keeper.keep_alive(transaction_id, request.timeout_ms)
    return rpc.StageColumnsResponse(status=OK, is_committed=not is_staged)


async def keep_stages(service: Service, request: rpc.KeepStagesRequest, caller: Caller) -> rpc.KeepStagesResponse:
    """KeepStages: restarts the timeout of a transaction's stages.

    Responds with OK even if the transaction has no stages, or no longer has any: its commit will find out.
    """
    service.stage_keeper.check_timeout(request.timeout_ms)
    service.stage_keeper.keep_alive(transaction_id_from(request.transaction), request.timeout_ms)
    return rpc.KeepStagesResponse(status=OK)


async def commit_stages(service: Service, request: rpc.CommitStagesRequest, caller: Caller) -> rpc.CommitStagesResponse:
    """CommitStages: makes the messages of a transaction readable, all of them or none, and once.

    Responds once all of them can be read, even if an earlier call committed the transaction.
    """
    transaction_id = transaction_id_from(request.transaction)
    named = [stage_commands.CommittedStage(stage.stage_id, stage.call_count) for stage in request.stages]
    record = _record_from(request.record) if request.HasField("record") else None
    row_count = request.row_count if request.HasField("row_count") else None

    def commit(draft: Draft) -> tuple[int, Outcome]:
        missing_count = stage_commands.count_missing(draft, transaction_id)
        outcome = stage_commands.commit(
            draft,
            service.sender.store_host,
            transaction_id,
            named,
            service.clock_ms(),
            record,
            row_count,
            refuse_gap=request.refuse_gap,
        )
        return missing_count, outcome

    await service.slices.collect(service.state.store.join_stages([stage.stage_id for stage in named]))
    missing_count, outcome = await service.group_commit.execute(commit)
    if missing_count:
        service.metrics.commit_gaps += 1
        _log_gap(transaction_id, missing_count, outcome)
    if outcome is Outcome.GAP:
        return rpc.CommitStagesResponse(status=OK, missing_count=missing_count, is_refused=True)
    await service.stage_keeper.wait_until_stored(transaction_id)
    return rpc.CommitStagesResponse(
        status=OK,
        was_committed=outcome is not Outcome.NEW,
        was_compared=outcome is Outcome.DONE,
        missing_count=missing_count,
    )


def _log_gap(transaction: TransactionId, missing_count: int, outcome: Outcome) -> None:
    assert transaction.number is not None, "only numbers can be missing"
    _logger.warning(
        "batch %d of %s %s, and the %d before it were never committed here: the query's checkpoint is newer than the "
        "data of this broker, or another broker has them",
        transaction.number,
        transaction.writer,
        "was refused" if outcome is Outcome.GAP else "is committed",
        missing_count,
    )


def _record_from(record: rpc.CommitRecord) -> CommitRecord:
    return CommitRecord(record.plan, record.destination, record.row_count, record.digest)


async def drop_stages(service: Service, request: rpc.DropStagesRequest, caller: Caller) -> rpc.DropStagesResponse:
    """DropStages: deletes the stages of a transaction that will not be committed.

    Responds once they are deleted. A transaction that is committed keeps its messages.
    """
    transaction_id = transaction_id_from(request.transaction)
    await service.execute(lambda draft: stage_commands.drop(draft, transaction_id))
    return rpc.DropStagesResponse(status=OK)
