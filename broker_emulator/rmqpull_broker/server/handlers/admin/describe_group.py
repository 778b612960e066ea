"""DescribeGroup: one consumer group with its configuration, its clients and its progress."""

from __future__ import annotations

from rmqpull_broker.core.pulling.progress import group_progress
from rmqpull_broker.server.handlers.admin.codec import clients_to, group_to, progress_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.DescribeGroupRequest, caller: Caller) -> rpc.DescribeGroupResponse:
    """Tells all queues of each topic on which the group has any offset."""
    group = service.state.group(request.name)
    progress = group_progress(service.state, (group.name,), ())
    info = service.clients.consumers.consumer_group(group.name)
    return rpc.DescribeGroupResponse(
        status=OK,
        group=group_to(group),
        message_model="" if info is None else info.message_model.value,
        clients=clients_to(service.clients, group.name),
        progress=map(progress_to, progress),
    )
