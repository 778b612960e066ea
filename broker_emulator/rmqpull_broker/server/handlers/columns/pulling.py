"""PullColumns: reads many queues into one Arrow IPC stream, and parks when none of them has messages."""

from __future__ import annotations

from typing import NamedTuple

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter
from rmqpull_broker.core.messages.pulled_columns import select_pulled_columns
from rmqpull_broker.core.pulling import column_pull as columns_pull
from rmqpull_broker.core.pulling.checks import check_pull
from rmqpull_broker.core.pulling.column_pull import ColumnPull, begin_column_pull, may_park
from rmqpull_broker.core.pulling.message_pull import Pulled
from rmqpull_broker.core.pulling.request import PullContext, PullRequest
from rmqpull_broker.core.state.names import check_group_name
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from, expression_type_from
from rmqpull_broker.server.wire.limits import PULL_BYTES_MAX, PULL_ROWS_MAX
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto import columns
from rmqpull_proto.columns_response import ColumnsResponse
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


class _Pulls(NamedTuple):
    """A request for many queues: what all of them share, and the pull of each queue."""

    shared: PullRequest
    of_queues: list[ColumnPull]
    rows_max: int
    bytes_max: int


async def pull_columns(service: Service, request: rpc.PullColumnsRequest, caller: Caller) -> ColumnsResponse:
    """PullColumns: when no queue has a message, the pull parks once and then runs once more."""
    if not request.queues:
        raise BadRequest("a pull needs at least one queue")
    try:
        schema = columns.select_pulled(request.columns)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    timeout_ms = request.long_polling_timeout_ms
    service.check_polling_time(timeout_ms)
    pulls = _pulls_from(request, caller)
    await _check_group(service, pulls.shared)
    results, message_filter = await _run(service, pulls, is_first_run=True)
    if (request.suspend if request.HasField("suspend") else timeout_ms > 0) and may_park(results):
        queues = [pull.queue for pull in pulls.of_queues]
        # With the suspend bit a timeout of 0 lasts until the next check (rules 6.1).
        on_grid = timeout_ms <= 0
        if await service.park(queues, message_filter, timeout_ms, caller, group=request.group, on_grid=on_grid):
            results, _ = await _run(service, pulls, is_first_run=False)
    for pull, result in zip(pulls.of_queues, results, strict=True):
        service.metrics.count_pull(pull.queue.topic, result)
    batches = [select_pulled_columns(batch, schema.names) for result in results for batch in result.batches]
    response = rpc.PullColumnsResponse(status=OK, queues=[_result_to(result) for result in results])
    return ColumnsResponse(response, schema, batches)


def _pulls_from(request: rpc.PullColumnsRequest, caller: Caller) -> _Pulls:
    of_queues = [_pull_from(queue) for queue in request.queues]
    check_group_name(request.group)
    shared = PullRequest(
        request.group,
        of_queues[0].queue,
        subscription=request.filter_expression.expression,
        expression_type=expression_type_from(request.filter_expression),
        remote_address=caller.address,
        channel_id=caller.client_id,
        is_strict=True,
    )
    if request.max_rows < 0 or request.max_bytes < 0:
        raise BadRequest(
            f"max_rows is {request.max_rows} and max_bytes is {request.max_bytes}: they must not be negative"
        )
    rows_max = min(request.max_rows or PULL_ROWS_MAX, PULL_ROWS_MAX)
    bytes_max = min(request.max_bytes or PULL_BYTES_MAX, PULL_BYTES_MAX)
    return _Pulls(shared, of_queues, rows_max, bytes_max)


async def _check_group(service: Service, shared: PullRequest) -> None:
    """Makes the checks that come before those of the queues. A group that they create stays in any case."""
    consumers, now_ms, pull_context = service.clients.consumers, service.clock_ms(), PullContext(service.endpoints[0])
    verdict = await service.execute(
        lambda draft: check_pull(draft, consumers, shared, now_ms, pull_context, is_of_group_alone=True)
    )
    if verdict.refusal is not None:
        raise verdict.refusal


async def _run(service: Service, pulls: _Pulls, *, is_first_run: bool) -> tuple[list[Pulled], MessageFilter]:
    """Runs the pull once. Returns the results and the filter. Raises the refusal of a check that fails."""
    consumers, now_ms, pull_context = service.clients.consumers, service.clock_ms(), PullContext(service.endpoints[0])
    verdicts = await service.execute(
        lambda draft: begin_column_pull(
            draft, consumers, pulls.shared, pulls.of_queues, now_ms, pull_context, is_first_run=is_first_run
        )
    )
    message_filter: MessageFilter = EVERYTHING
    for verdict in verdicts:
        if verdict is not None:
            message_filter = verdict.message_filter  # the same for each queue that exists; others are not read
            if verdict.compensation is not None:
                verdict.compensation.apply(consumers)
    results = columns_pull.pull_columns(
        service.state, pulls.of_queues, message_filter, pulls.rows_max, pulls.bytes_max, verdicts
    )
    return results, message_filter


def _pull_from(pull: rpc.QueuePull) -> ColumnPull:
    return ColumnPull(
        column_queue_from(pull.queue),
        pull.offset,
        pull.until_offset if pull.HasField("until_offset") else None,
        pull.creation_id if pull.HasField("creation_id") else None,
        pull.commit_offset if pull.HasField("commit_offset") else None,
    )


def _result_to(result: Pulled) -> rpc.QueuePulled:
    return rpc.QueuePulled(
        pull_status=result.status.name,
        row_count=result.row_count,
        next_offset=result.next_offset,
        min_offset=result.bounds.min_offset,
        max_offset=result.bounds.max_offset,
    )
