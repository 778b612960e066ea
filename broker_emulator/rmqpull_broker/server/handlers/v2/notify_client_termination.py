"""NotifyClientTermination: a client says good-bye (rules 5.16)."""

from __future__ import annotations

from rmqpull_broker.core.admin.naming import check_group_name
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import name_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(
    service: Service, request: rpc.NotifyClientTerminationRequest, caller: Caller
) -> rpc.NotifyClientTerminationResponse:
    """Forgets the client; a consumer names its group. The stream stays open until the client closes it."""
    caller.require_client_id()
    group = None
    if service.clients.profile(caller.client_id).consumer is not None:
        name = name_of(request.group)
        check_group_name(name)
        group = service.state.groups.get(name)
    service.clients.terminate(caller.client_id, group)
    return rpc.NotifyClientTerminationResponse(status=OK)
