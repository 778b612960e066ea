"""The administration of a name server: lists of topics, its table of values, and its properties (rules 4.4)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import Forbidden
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.admin_codec import find_refusal
from rmqpull_broker.server.remoting.wire.admin_bodies import read_property_lines, write_property_lines
from rmqpull_broker.server.remoting.wire.admin_headers import (
    BrokerNameRequestHeader,
    GetTopicsByClusterRequestHeader,
    KvConfigRequestHeader,
    KvNamespaceRequestHeader,
)
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.json_dialect import write_json
from rmqpull_proto.remoting.routes import MASTER_ID, TopicList

NEVER_CHANGED = frozenset({"configBlackList", "configStorePath", "kvConfigPath"})
"""Properties that Apache's name server also refuses to change (``configBlackList``)."""

# --- topics -----------------------------------------------------------------------------------------------------------


def list_topics(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_ALL_TOPIC_LIST_FROM_NAMESERVER."""
    return call.respond(body=TopicList(_list_names(service)).encode())


def list_topics_of_cluster(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_TOPICS_BY_CLUSTER."""
    cluster = call.read_header(GetTopicsByClusterRequestHeader).cluster
    names = _list_names(service) if cluster == service.properties.broker_cluster_name else ()
    return call.respond(body=TopicList(names).encode())


def list_system_topics(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_SYSTEM_TOPIC_LIST_FROM_NS: names of clusters and brokers, and the address of a broker to ask for the rest."""
    names = (*(site.broker_name for site in service.sites), service.properties.broker_cluster_name)
    return call.respond(body=TopicList(names, service.sites[0].address).encode())


def list_unit_topics(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_UNIT_TOPIC_LIST and its variants: no topic belongs to a unit."""
    return call.respond(body=TopicList().encode())


def _list_names(service: RemotingService) -> tuple[str, ...]:
    state = service.state
    return (*state.system_topics, *state.topics)


def delete_topic(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """DELETE_TOPIC_IN_NAMESRV. The brokers have already deleted the topic, so there is nothing left to do."""
    return call.respond()


# --- brokers ----------------------------------------------------------------------------------------------------------


def protect_broker(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """WIPE_WRITE_PERM_OF_BROKER: routes say that no topic on a broker can be written to."""
    name = call.read_header(BrokerNameRequestHeader).broker_name
    service.name_server.write_protected.add(name)
    return call.respond({"wipeTopicCount": str(_count_topics(service, name))})


def release_broker(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """ADD_WRITE_PERM_OF_BROKER: routes have the real permissions of topics on a broker again."""
    name = call.read_header(BrokerNameRequestHeader).broker_name
    service.name_server.write_protected.discard(name)
    return call.respond({"addTopicCount": str(_count_topics(service, name))})


def _count_topics(service: RemotingService, broker_name: str) -> int:
    return len(_list_names(service)) if any(site.broker_name == broker_name for site in service.sites) else 0


def get_broker_group(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_BROKER_MEMBER_GROUP: the addresses of the brokers with a name."""
    header = call.read_header(BrokerNameRequestHeader)
    addresses = {str(MASTER_ID): site.address for site in service.sites if site.broker_name == header.broker_name}
    group = {"brokerAddrs": addresses, "brokerName": header.broker_name, "cluster": header.cluster_name}
    return call.respond(body=write_json({"brokerMemberGroup": group}))


def refuse_broker(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """REGISTER_BROKER and similar requests, which come from other brokers."""
    raise Forbidden("this name server is part of an emulated broker: other brokers cannot register")


# --- values and properties --------------------------------------------------------------------------------------------


def put_value(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """PUT_KV_CONFIG."""
    header = call.read_header(KvConfigRequestHeader)
    existing = service.name_server.find(header.namespace, header.key)
    refusal = find_refusal(service, call, f"value {header.key} of namespace {header.namespace}")
    if existing not in (None, header.value) and refusal is not None:
        raise refusal
    service.name_server.put(header.namespace, header.key, header.value)
    return call.respond()


def get_value(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_KV_CONFIG."""
    header = call.read_header(KvConfigRequestHeader)
    value = service.name_server.find(header.namespace, header.key)
    if value is None:
        return _find_nothing(call, f"Namespace: {header.namespace} Key: {header.key}")
    return call.respond({"value": value})


def delete_value(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """DELETE_KV_CONFIG."""
    header = call.read_header(KvConfigRequestHeader)
    service.name_server.delete(header.namespace, header.key)
    return call.respond()


def list_values(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_KVLIST_BY_NAMESPACE."""
    namespace = call.read_header(KvNamespaceRequestHeader).namespace
    values = service.name_server.list_values(namespace)
    if values is None:
        return _find_nothing(call, f"Namespace: {namespace}")
    return call.respond(body=write_json({"table": values}))


def _find_nothing(call: RemotingCall, wanted: str) -> RemotingCommand:
    return call.respond(code=ResponseCode.QUERY_NOT_FOUND, remark=f"No config item, {wanted}")


def get_properties(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_NAMESRV_CONFIG."""
    itself = {"bindAddress": service.sites[0].host, "listenPort": str(service.sites[0].port)}
    return call.respond(body=write_property_lines({**service.name_server.list_properties(), **itself}))


def change_properties(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """UPDATE_NAMESRV_CONFIG, until the broker stops."""
    changes = read_property_lines(call.command.body)
    if NEVER_CHANGED & changes.keys():
        return call.respond(code=ResponseCode.NO_PERMISSION, remark="Can not update config in black list.")
    service.name_server.change_properties(changes)
    return call.respond()


HANDLERS: Mapping[int, Handler] = {
    RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: list_topics,
    RequestCode.GET_TOPICS_BY_CLUSTER: list_topics_of_cluster,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS: list_system_topics,
    RequestCode.GET_UNIT_TOPIC_LIST: list_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST: list_unit_topics,
    RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: list_unit_topics,
    RequestCode.DELETE_TOPIC_IN_NAMESRV: delete_topic,
    RequestCode.WIPE_WRITE_PERM_OF_BROKER: protect_broker,
    RequestCode.ADD_WRITE_PERM_OF_BROKER: release_broker,
    RequestCode.GET_BROKER_MEMBER_GROUP: get_broker_group,
    RequestCode.REGISTER_BROKER: refuse_broker,
    RequestCode.UNREGISTER_BROKER: refuse_broker,
    RequestCode.REGISTER_TOPIC_IN_NAMESRV: refuse_broker,
    RequestCode.QUERY_DATA_VERSION: refuse_broker,
    RequestCode.PUT_KV_CONFIG: put_value,
    RequestCode.GET_KV_CONFIG: get_value,
    RequestCode.DELETE_KV_CONFIG: delete_value,
    RequestCode.GET_KVLIST_BY_NAMESPACE: list_values,
    RequestCode.GET_NAMESRV_CONFIG: get_properties,
    RequestCode.UPDATE_NAMESRV_CONFIG: change_properties,
}
