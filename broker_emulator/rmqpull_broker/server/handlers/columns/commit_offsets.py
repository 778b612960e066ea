"""CommitOffsets: a group's consumer offsets on many queues, all of them or none."""

from __future__ import annotations

from rmqpull_broker.core.pulling.consumer_offsets import commit_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from
from rmqpull_broker.server.wire.status import OK, PREVIOUSLY_RESET
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def answer(service: Service, request: rpc.CommitOffsetsRequest, caller: Caller) -> rpc.CommitOffsetsResponse:
    """Answers when all offsets are kept; those of queues with a pending reset are ignored, and the answer says so."""
    offsets = [(column_queue_from(entry.queue), entry.offset) for entry in request.offsets]

    def commit(draft: Draft) -> tuple[bool, list[int]]:
        previous = [draft.state.consumer_offsets.get((request.group, queue), -1) for queue, _ in offsets]
        return commit_offsets(draft, request.group, offsets), previous

    all_taken, previous = await service.group_commit.execute(commit)
    return rpc.CommitOffsetsResponse(status=OK if all_taken else PREVIOUSLY_RESET, previous_offsets=previous)
