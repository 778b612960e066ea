"""ListClients: who sent settings or heartbeats and has not gone silent (rules 3.6)."""

from __future__ import annotations

from rmqpull_broker.server.handlers.admin.codec import clients_to
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.ListClientsRequest, caller: Caller) -> rpc.ListClientsResponse:
    """A group that nobody is in has no clients, whether it exists or not."""
    return rpc.ListClientsResponse(status=OK, clients=clients_to(service.clients, request.group))
