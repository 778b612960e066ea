"""QueryAssignment: which queues a consumer receives from; every member of a group is told the same (rules 5.9)."""

from __future__ import annotations

from rmqpull_broker.core.admin.naming import check_group_name, check_topic_name
from rmqpull_broker.core.admin.routes import assigned_queue_ids
from rmqpull_broker.core.errors import Forbidden
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import endpoints_to, name_of, permission_to
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.QueryAssignmentRequest, caller: Caller) -> rpc.QueryAssignmentResponse:
    """One assignment per broker, or one per queue when the group consumes in order; the group need not exist."""
    caller.require_client_id()
    name, group_name = name_of(request.topic), name_of(request.group)
    check_topic_name(name)
    check_group_name(group_name)
    topic = service.state.topic(name)
    group = service.state.groups.get(group_name)
    permission = service.state.properties.broker_permission
    queue_ids = assigned_queue_ids(topic, permission, fifo=group is not None and group.consume_message_orderly)
    if not queue_ids:
        raise Forbidden("no readable queue")
    endpoints = request.endpoints if request.endpoints.addresses else endpoints_to(*service.endpoints)
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
