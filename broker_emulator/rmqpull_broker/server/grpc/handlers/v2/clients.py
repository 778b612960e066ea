"""Heartbeat and NotifyClientTermination: clients stay registered, and leave. Telemetry registers them."""

from __future__ import annotations

from rmqpull_broker.core.state.names import check_group_of_client
from rmqpull_broker.server.grpc.wire.codec import name_from
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def heartbeat(service: Service, request: rpc.HeartbeatRequest, caller: Caller) -> rpc.HeartbeatResponse:
    """Heartbeat: keeps a client registered that has sent its settings (rules 5.10).

    Refreshes a producer in all of its topics, and a consumer in the group that the request names.
    """
    caller.require_client_id()
    group = None
    if service.clients.find_profile(caller.client_id).consumer is not None:
        name = name_from(request.group)
        check_group_of_client(name)
        group = next(iter(await service.ensure_groups([name])), None)
    # Look the profile up again: during the await the client may have left or sent other settings.
    service.clients.refresh(service.clients.find_profile(caller.client_id), group)
    return rpc.HeartbeatResponse(status=OK)


async def notify_client_termination(
    service: Service, request: rpc.NotifyClientTerminationRequest, caller: Caller
) -> rpc.NotifyClientTerminationResponse:
    """NotifyClientTermination: removes a client; a consumer names its group (rules 5.16).

    The client's Telemetry stream stays open until the client closes it. Messages that the broker renews for a consumer
    become visible again soon (rules 5.12.3).
    """
    caller.require_client_id()
    group = None
    if service.clients.find_profile(caller.client_id).consumer is not None:
        name = name_from(request.group)
        check_group_of_client(name)
        group = service.state.groups.get(name)
    service.clients.terminate(caller.client_id, group)
    service.renewer.release_gone()
    return rpc.NotifyClientTerminationResponse(status=OK)
