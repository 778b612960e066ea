"""QueryLag: how far groups are behind, queue by queue."""

from __future__ import annotations

from rmqpull_broker.core.pulling.progress import group_progress
from rmqpull_broker.server.handlers.admin.codec import progress_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.QueryLagRequest, caller: Caller) -> rpc.QueryLagResponse:
    """A group or a topic that is named and does not exist is refused: a lag of nothing would look like no lag."""
    for name in request.groups:
        service.state.group(name)
    for name in request.topics:
        service.state.topic(name)
    progress = group_progress(service.state, set(request.groups), set(request.topics))
    return rpc.QueryLagResponse(status=OK, progress=map(progress_to, progress))
