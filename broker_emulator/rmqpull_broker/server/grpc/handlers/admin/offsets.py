"""ResetOffsets: sets the offsets of a group, as INVOKE_BROKER_TO_RESET_OFFSET does (rules 3.5.3)."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset, read_queue_progress
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.grpc.wire.codec import column_queue_to
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_TIMES_MS = {rpc.EARLIEST: 0, rpc.LATEST: -1}
"""EARLIEST and LATEST as times: every message was stored at 0 or later, and a negative time means the end."""


async def reset_offsets(service: Service, request: rpc.ResetOffsetsRequest, caller: Caller) -> rpc.ResetOffsetsResponse:
    """ResetOffsets: answers when the resets are stored, all of them or none.

    Refuses a queue that does not exist, which Apache's broker does not.
    """
    wanted = _request_from(request, service.state.broker_names)
    has_consumers = bool(service.clients.consumers.members(wanted.group))

    def reset(draft: Draft) -> list[rpc.QueueReset]:
        resets = invoke_reset(draft, wanted, has_consumers=has_consumers)
        if wanted.queue is not None:
            draft.require_queue(wanted.queue)
        return [
            rpc.QueueReset(
                queue=column_queue_to(queue),
                previous_offset=read_queue_progress(draft.state, wanted.group, queue).consumer_offset,
                offset=offset,
            )
            for queue, offset in resets
        ]

    # A dry run discards its draft, and with it the facts.
    queues = reset(Draft(service.state)) if request.dry_run else await service.group_commit.execute(reset)
    return rpc.ResetOffsetsResponse(status=OK, queues=queues)


def _request_from(request: rpc.ResetOffsetsRequest, broker_names: tuple[str, ...]) -> ResetRequest:
    queue = _queue_from(request, broker_names)
    kind = request.WhichOneof("target")
    if kind == "offset":
        if queue is None:
            raise BadRequest(
                "an offset is for one queue: give its id, or reset all queues to a time, EARLIEST or LATEST"
            )
        if request.offset < 0:
            raise BadRequest(f"offset {request.offset} is negative")
        return ResetRequest(request.group, request.topic, queue, request.offset)
    if kind == "timestamp_ms":
        return ResetRequest(request.group, request.topic, queue, timestamp_ms=request.timestamp_ms)
    if kind == "place" and request.place in _TIMES_MS:
        return ResetRequest(request.group, request.topic, queue, timestamp_ms=_TIMES_MS[request.place])
    raise BadRequest("a reset needs an offset, a time, EARLIEST or LATEST")


def _queue_from(request: rpc.ResetOffsetsRequest, broker_names: tuple[str, ...]) -> MessageQueue | None:
    if not request.HasField("queue_id"):
        if request.HasField("broker_name"):
            raise BadRequest("broker_name needs a queue_id: give both, or neither")
        return None
    if request.HasField("broker_name"):
        return MessageQueue(request.topic, request.broker_name, request.queue_id)
    if len(broker_names) > 1:
        raise BadRequest(f"several brokers have queue {request.queue_id}: name one of {', '.join(broker_names)}")
    return MessageQueue(request.topic, broker_names[0], request.queue_id)
