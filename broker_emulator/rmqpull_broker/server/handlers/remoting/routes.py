"""What a name server tells: the route of a topic, the cluster, and the topics (rules 4.4)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import FAQ, TopicNotFound
from rmqpull_broker.server.runtime.remoting_calls import Handler, RemotingCall, RemotingService
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import GetRouteInfoRequestHeader
from rmqpull_proto.remoting.routes import BrokerData, ClusterInfo, QueueData, TopicList, TopicRoute

MASTER_ID = 0


def get_route(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_ROUTEINFO_BY_TOPIC."""
    name = call.read_header(GetRouteInfoRequestHeader).topic
    topic = service.service.state.find_topic(name)
    if topic is None:
        raise TopicNotFound(f"No topic route info in name server for the topic: {name}{FAQ}")
    queues = tuple(
        QueueData(site.broker_name, topic.read_queue_nums, topic.write_queue_nums, topic.perm) for site in service.sites
    )
    return call.respond(body=TopicRoute(queues, _describe_brokers(service)).encode())


def get_cluster(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_BROKER_CLUSTER_INFO."""
    brokers = {data.broker_name: data for data in _describe_brokers(service)}
    clusters = {service.properties.broker_cluster_name: tuple(brokers)}
    return call.respond(body=ClusterInfo(brokers, clusters).encode())


def list_topics(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
    return call.respond(body=TopicList(tuple(service.service.state.topics)).encode())


def _describe_brokers(service: RemotingService) -> tuple[BrokerData, ...]:
    cluster = service.properties.broker_cluster_name
    return tuple(BrokerData(cluster, site.broker_name, {MASTER_ID: site.address}) for site in service.sites)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.GET_ROUTEINFO_BY_TOPIC: get_route,
    RequestCode.GET_BROKER_CLUSTER_INFO: get_cluster,
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: list_topics,
}
