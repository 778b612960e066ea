"""QueryRoute: the queues of a topic and where they are served (rocketmq-semantics 5.8)."""

from __future__ import annotations

import ipaddress

from rmqpull_broker.core.naming import check_topic_name
from rmqpull_broker.server.codec import name_of
from rmqpull_broker.server.service import Caller, Service
from rmqpull_broker.server.status import OK
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.QueryRouteRequest, caller: Caller) -> rpc.QueryRouteResponse:
    """Lists every queue, readable and writable. Routes never create topics."""
    caller.require_client_id()
    name = name_of(request.topic)
    check_topic_name(name)
    topic = service.state.topic(name)
    # Apache's proxy echoes the host that the client used and puts its own port; behind a mapped port only the
    # client's own view reaches us, so the whole address is echoed.
    endpoints = request.endpoints if request.endpoints.addresses else _own_endpoints(service)
    queues = [
        v2.MessageQueue(
            topic=request.topic,
            id=queue.queue_id,
            permission=v2.Permission.READ_WRITE,
            broker=v2.Broker(name=queue.broker_name, id=0, endpoints=endpoints),
            accept_message_types=[topic.topic_type.value],
        )
        for queue in service.state.readable_queues(topic)
    ]
    return rpc.QueryRouteResponse(status=OK, message_queues=queues)


def _own_endpoints(service: Service) -> v2.Endpoints:
    host, port = service.endpoints
    return v2.Endpoints(scheme=_scheme(host), addresses=[v2.Address(host=host, port=port)])


def _scheme(host: str) -> v2.AddressScheme:
    try:
        version = ipaddress.ip_address(host).version
    except ValueError:
        return v2.AddressScheme.DOMAIN_NAME
    return v2.AddressScheme.IPv4 if version == 4 else v2.AddressScheme.IPv6
