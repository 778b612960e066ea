"""ReportRowsLost: what a query's tasks could not read, kept for the query's driver to ask for."""

from __future__ import annotations

from rmqpull_broker.core.pulling.consumer_offsets import report_lost
from rmqpull_broker.core.state.facts import LostRange
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def answer(service: Service, request: rpc.ReportRowsLostRequest, caller: Caller) -> rpc.ReportRowsLostResponse:
    """Answers when the report is kept. A repeated report counts once."""
    ranges = [
        LostRange(column_queue_from(entry.queue), entry.from_offset, entry.until_offset) for entry in request.ranges
    ]
    await service.group_commit.execute(lambda draft: report_lost(draft, request.query_id, request.batch_id, ranges))
    return rpc.ReportRowsLostResponse(status=OK)
