"""Routes: the brokers and queues of a topic, and the brokers of the cluster (rules 4.4)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import FAQ, TopicNotFound
from rmqpull_broker.core.model import PERM_WRITE, TopicConfig
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import GetRouteInfoRequestHeader
from rmqpull_proto.remoting.routes import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute


def get_route(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_ROUTEINFO_BY_TOPIC. The response is standard JSON, whether or not the client requests it."""
    name = call.read_header(GetRouteInfoRequestHeader).topic
    topic = service.state.find_topic(name)
    if topic is None:
        raise TopicNotFound(f"No topic route info in name server for the topic: {name}{FAQ}")
    queues = tuple(_describe_queues(service, topic, site.broker_name) for site in service.sites)
    order = service.name_server.find_order(name)
    return call.respond(body=TopicRoute(queues, _describe_brokers(service), order).encode())


def _describe_queues(service: RemotingService, topic: TopicConfig, broker_name: str) -> QueueData:
    perm = topic.perm & ~PERM_WRITE if broker_name in service.name_server.write_protected else topic.perm
    return QueueData(broker_name, topic.read_queue_nums, topic.write_queue_nums, perm)


def get_cluster(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_BROKER_CLUSTER_INFO."""
    brokers = {data.broker_name: data for data in _describe_brokers(service)}
    clusters = {service.properties.broker_cluster_name: tuple(brokers)}
    return call.respond(body=ClusterInfo(brokers, clusters).encode())


def _describe_brokers(service: RemotingService) -> tuple[BrokerData, ...]:
    cluster = service.properties.broker_cluster_name
    return tuple(BrokerData(cluster, site.broker_name, {MASTER_ID: site.address}) for site in service.sites)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: get_cluster,
}
