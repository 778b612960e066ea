"""QueryRoute: the queues of a topic and where they are served (rules 5.8)."""

from __future__ import annotations

from rmqpull_broker.core.admin.naming import check_topic_name
from rmqpull_broker.core.admin.routes import accepted_types, route_queues
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import endpoints_to, name_of, permission_to
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.QueryRouteRequest, caller: Caller) -> rpc.QueryRouteResponse:
    """Lists the queues of every broker, each with what may be done with it. Routes never create topics."""
    caller.require_client_id()
    name = name_of(request.topic)
    check_topic_name(name)
    topic = service.state.topic(name)
    # Apache's proxy echoes the host that the client used and puts its own port; behind a mapped port only the
    # client's own view reaches us, so the whole address is echoed.
    endpoints = request.endpoints if request.endpoints.addresses else endpoints_to(*service.endpoints)
    message_types = [topic_type.value for topic_type in accepted_types(topic)]
    queues = [
        v2.MessageQueue(
            topic=request.topic,
            id=queue_id,
            permission=permission_to(perm),
            broker=v2.Broker(name=broker_name, id=0, endpoints=endpoints),
            accept_message_types=message_types,
        )
        for broker_name in service.state.broker_names
        for queue_id, perm in route_queues(topic, service.state.properties.broker_permission)
    ]
    return rpc.QueryRouteResponse(status=OK, message_queues=queues)
