"""ListGroups: all consumer groups by name, each with its clients and its lag."""

from __future__ import annotations

from rmqpull_broker.core.pulling.progress import group_progress
from rmqpull_broker.server.handlers.admin.codec import group_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.ListGroupsRequest, caller: Caller) -> rpc.ListGroupsResponse:
    """Tells every group that was created or that came to be on first use."""
    lags: dict[str, int] = {}
    for progress in group_progress(service.state, (), ()):
        lags[progress.group] = lags.get(progress.group, 0) + progress.lag
    groups = [
        rpc.GroupSummary(
            group=group_to(service.state.groups[name]),
            client_count=len(service.clients.consumers.members(name)),
            lag=lags.get(name, 0),
        )
        for name in sorted(service.state.groups)
    ]
    return rpc.ListGroupsResponse(status=OK, groups=groups)
