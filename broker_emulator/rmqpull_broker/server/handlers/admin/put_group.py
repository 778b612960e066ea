"""PutGroup: creates or changes a consumer group, as UPDATE_AND_CREATE_SUBSCRIPTIONGROUP does (rules 3.9.4)."""

from __future__ import annotations

from dataclasses import replace

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.properties import NOT_SERVED, changes_nothing
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.handlers.admin.codec import group_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_FIELDS = (
    "consume_enable",
    "consume_broadcast_enable",
    "consume_message_orderly",
    "retry_queue_nums",
    "retry_max_times",
)


_BROADCASTING = f"broadcasting consumers pull over {NOT_SERVED}"
_NOTICES = f"members hear of joins and leaves over {NOT_SERVED}"


async def answer(service: Service, request: rpc.PutGroupRequest, caller: Caller) -> rpc.PutGroupResponse:
    """What the request leaves open keeps its value, or gets RocketMQ's default when the group is new."""
    _check_effective(request)
    given = {name: getattr(request, name) for name in _FIELDS if request.HasField(name)}

    def put(draft: Draft) -> tuple[GroupConfig, bool]:
        existing = draft.group(request.name) if request.mode == rpc.UPDATE else draft.find_group(request.name)
        kept = None if request.mode == rpc.CREATE else existing
        group = replace(kept or GroupConfig(request.name), **given)
        if request.mode == rpc.CREATE and existing not in (None, group):
            raise BadRequest(f"group {request.name} exists with another configuration; update it, or ask for the same")
        put_group(draft, group)
        return group, existing is None

    group, created = await service.group_commit.execute(put)
    return rpc.PutGroupResponse(status=OK, group=group_to(group), created=created)


def _check_effective(request: rpc.PutGroupRequest) -> None:
    """Raises BadRequest for what would change nothing. Groups of older data directories may have it."""
    if request.HasField("notify_consumer_ids_changed_enable"):
        raise BadRequest(changes_nothing("notifyConsumerIdsChangedEnable (--notify, --no-notify)", _NOTICES))
    if request.HasField("consume_broadcast_enable") and not request.consume_broadcast_enable:
        raise BadRequest(changes_nothing("consumeBroadcastEnable=false (--no-broadcast)", _BROADCASTING))
