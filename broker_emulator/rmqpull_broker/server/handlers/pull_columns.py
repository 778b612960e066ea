"""PullColumns: reads many queues at once into one Arrow IPC stream, and waits when none has anything."""

from __future__ import annotations

import pyarrow as pa

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filtering import MessageFilter
from rmqpull_broker.core.pulling import ColumnPull, Pulled, pull_columns
from rmqpull_broker.server.codec import column_queue_from, filter_from
from rmqpull_broker.server.limits import PULL_BYTES_MAX, PULL_ROWS_MAX
from rmqpull_broker.server.service import Caller, Service
from rmqpull_broker.server.status import OK
from rmqpull_proto import columns
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def answer(service: Service, request: rpc.PullColumnsRequest, caller: Caller) -> rpc.PullColumnsResponse:
    """Pulls; when every queue is at its end the pull is held once, and then answered as it is."""
    if not request.queues:
        raise BadRequest("a pull needs at least one queue")
    try:
        schema = columns.select(columns.PULL_SCHEMA, request.columns)
    except ValueError as error:
        raise BadRequest(str(error)) from None
    service.check_polling_time(request.long_polling_timeout_ms)
    tag_filter = filter_from(request.filter_expression, service.state.properties)
    pulls = [_pull_from(queue) for queue in request.queues]
    await service.ensure_group(request.group)
    results = _pull(service, request, pulls, tag_filter)
    if request.long_polling_timeout_ms > 0 and all(result.waits for result in results):
        await service.hold([pull.queue for pull in pulls], tag_filter, request.long_polling_timeout_ms, caller)
        results = _pull(service, request, pulls, tag_filter)
    for pull, result in zip(pulls, results, strict=True):
        service.metrics.pulled(pull.queue.topic, result)
    batches = [batch.select(schema.names) for result in results for batch in result.batches]
    return rpc.PullColumnsResponse(
        status=OK, queues=[_result_to(result) for result in results], arrow_ipc=_encoded(schema, batches)
    )


def _encoded(schema: pa.Schema, batches: list[pa.RecordBatch]) -> bytes:
    return columns.write_stream(schema, batches) if batches else b""


def _pull_from(pull: rpc.QueuePull) -> ColumnPull:
    until_offset = pull.until_offset if pull.HasField("until_offset") else None
    return ColumnPull(column_queue_from(pull.queue), pull.offset, until_offset)


def _pull(
    service: Service, request: rpc.PullColumnsRequest, pulls: list[ColumnPull], tag_filter: MessageFilter
) -> list[Pulled]:
    rows_max = min(request.max_rows or PULL_ROWS_MAX, PULL_ROWS_MAX)
    bytes_max = min(request.max_bytes or PULL_BYTES_MAX, PULL_BYTES_MAX)
    return pull_columns(service.state, pulls, tag_filter, rows_max, bytes_max)


def _result_to(result: Pulled) -> rpc.QueuePulled:
    return rpc.QueuePulled(
        pull_status=result.status.name,
        row_count=result.row_count,
        next_offset=result.next_offset,
        min_offset=result.bounds.min_offset,
        max_offset=result.bounds.max_offset,
    )
