"""CommitOffsets and ReportRowsLost: what queries store on the broker about their progress."""

from __future__ import annotations

from rmqpull_broker.core.pulling import consumer_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import LostRange
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from
from rmqpull_broker.server.wire.status import OK, PREVIOUSLY_RESET
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def commit_offsets(
    service: Service, request: rpc.CommitOffsetsRequest, caller: Caller
) -> rpc.CommitOffsetsResponse:
    """CommitOffsets: sets a group's consumer offsets on many queues, all of them or none.

    Answers when the offsets are stored. Those of queues with a pending reset are ignored, and the response says so.
    """
    offsets = [(column_queue_from(entry.queue), entry.offset) for entry in request.offsets]

    def commit(draft: Draft) -> tuple[bool, list[int]]:
        previous = [draft.state.consumer_offsets.get((request.group, queue), -1) for queue, _ in offsets]
        return consumer_offsets.commit_offsets(draft, request.group, offsets), previous

    all_stored, previous = await service.group_commit.execute(commit)
    return rpc.CommitOffsetsResponse(status=OK if all_stored else PREVIOUSLY_RESET, previous_offsets=previous)


async def report_rows_lost(
    service: Service, request: rpc.ReportRowsLostRequest, caller: Caller
) -> rpc.ReportRowsLostResponse:
    """ReportRowsLost: stores what a query's tasks could not read; its driver asks for it with QueryBounds.

    Answers when the report is stored. A repeated report counts once.
    """
    ranges = [
        LostRange(column_queue_from(entry.queue), entry.from_offset, entry.until_offset) for entry in request.ranges
    ]
    await service.group_commit.execute(
        lambda draft: consumer_offsets.report_lost(draft, request.query_id, request.batch_id, ranges)
    )
    return rpc.ReportRowsLostResponse(status=OK)
