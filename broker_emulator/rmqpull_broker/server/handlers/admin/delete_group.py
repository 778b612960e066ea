"""DeleteGroup: a consumer group goes with all of its progress."""

from __future__ import annotations

from rmqpull_broker.core.admin.groups import delete_group
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.DeleteGroupRequest, caller: Caller) -> rpc.DeleteGroupResponse:
    """Answers when the deletion is kept."""
    await service.group_commit.execute(lambda draft: delete_group(draft, request.name))
    return rpc.DeleteGroupResponse(status=OK)
