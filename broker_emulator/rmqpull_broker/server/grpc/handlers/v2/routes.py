"""QueryRoute and QueryAssignment: which queues a topic has, and which a consumer reads."""

from __future__ import annotations

from rmqpull_broker.core.admin.topics import list_accepted_types, list_assigned_queue_ids, list_route_queues
from rmqpull_broker.core.errors import Forbidden
from rmqpull_broker.core.state.names import check_group_of_client, check_topic_of_client
from rmqpull_broker.server.grpc.wire.codec import endpoints_to, name_from, permission_to
from rmqpull_broker.server.grpc.wire.proxy_errors import require_route
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def query_route(service: Service, request: rpc.QueryRouteRequest, caller: Caller) -> rpc.QueryRouteResponse:
    """QueryRoute: lists the queues of a topic on every broker, with their permissions (rules 5.8).

    A route query never creates a topic.
    """
    caller.require_client_id()
    name = name_from(request.topic)
    check_topic_of_client(name)
    topic = require_route(service.state, name)
    endpoints = _endpoints(service, request)
    message_types = [topic_type.value for topic_type in list_accepted_types(topic)]
    queues = [
        v2.MessageQueue(
            topic=request.topic,
            id=queue_id,
            permission=permission_to(perm),
            broker=v2.Broker(name=broker_name, id=0, endpoints=endpoints),
            accept_message_types=message_types,
        )
        for broker_name in service.state.broker_names
        for queue_id, perm in list_route_queues(topic, service.state.properties.broker_permission)
    ]
    return rpc.QueryRouteResponse(status=OK, message_queues=queues)


async def query_assignment(
    service: Service, request: rpc.QueryAssignmentRequest, caller: Caller
) -> rpc.QueryAssignmentResponse:
    """QueryAssignment: lists the queues that a consumer receives from, the same for each member (rules 5.9).

    Returns one assignment per broker, or one per queue when the group consumes in order. The group need not exist.
    """
    caller.require_client_id()
    name, group_name = name_from(request.topic), name_from(request.group)
    check_topic_of_client(name)
    check_group_of_client(group_name)
    topic = require_route(service.state, name)
    group = service.state.groups.get(group_name)
    permission = service.state.properties.broker_permission
    queue_ids = list_assigned_queue_ids(topic, permission, fifo=group is not None and group.consume_message_orderly)
    if not queue_ids:
        raise Forbidden("no readable queue")
    endpoints = _endpoints(service, request)
    queues = [
        v2.MessageQueue(
            topic=request.topic,
            id=queue_id,
            permission=permission_to(topic.perm & permission),
            broker=v2.Broker(name=broker_name, id=0, endpoints=endpoints),
        )
        for broker_name in service.state.broker_names
        for queue_id in queue_ids
    ]
    assignments = [v2.Assignment(message_queue=queue) for queue in queues]
    return rpc.QueryAssignmentResponse(status=OK, assignments=assignments)


def _endpoints(service: Service, request: rpc.QueryRouteRequest | rpc.QueryAssignmentRequest) -> v2.Endpoints:
    # Apache's proxy echoes the client's host and adds its own port. Behind a mapped port only the client knows an
    # address that works, so the whole address is echoed.
    return request.endpoints if request.endpoints.addresses else endpoints_to(*service.endpoints)
