"""Heartbeat: a client that sent its settings says that it is still there (rules 5.10)."""

from __future__ import annotations

from rmqpull_broker.core.admin.naming import check_group_name
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import name_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.HeartbeatRequest, caller: Caller) -> rpc.HeartbeatResponse:
    """A producer is refreshed in all of its topics, a consumer in the group that it names here."""
    caller.require_client_id()
    group = None
    if service.clients.profile(caller.client_id).consumer is not None:
        name = name_of(request.group)
        check_group_name(name)
        group = next(iter(await service.groups_with_retry_topic([name])), None)
    # Asked anew: meanwhile the client may have said good-bye, or something else of itself.
    service.clients.refresh(service.clients.profile(caller.client_id), group)
    return rpc.HeartbeatResponse(status=OK)
