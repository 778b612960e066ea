"""The connections of groups: who consumes and who produces, as administrators see it (rules 3.6, 4.6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rmqpull_broker.core.clients.members import ClientChannel
from rmqpull_broker.core.errors import InternalError
from rmqpull_broker.server.handlers.remoting.admin_codec import describe_subscription
from rmqpull_broker.server.runtime.remoting_calls import Handler, RemotingCall, RemotingService
from rmqpull_proto.remoting.admin_bodies import Connection
from rmqpull_proto.remoting.admin_headers import ProducerGroupRequestHeader
from rmqpull_proto.remoting.codes import VERSION, LanguageCode, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import GroupRequestHeader
from rmqpull_proto.remoting.json_dialect import write_json

_LANGUAGES = frozenset(LanguageCode.__members__)


def list_consumers(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_CONSUMER_CONNECTION_LIST: the members of a group on this broker, and what they subscribe to."""
    group = call.read_header(GroupRequestHeader).consumer_group
    info = service.service.clients.consumers.find_consumer_group(group)
    connections = [] if info is None else _describe(call, info.channels)
    if info is None or not connections:
        return call.respond(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=f"the consumer group[{group}] not online")
    told = {
        "connectionSet": connections,
        "consumeFromWhere": info.consume_from_where.value,
        "consumeType": info.consume_type.value,
        "messageModel": info.message_model.value,
        "subscriptionTable": {topic: describe_subscription(data) for topic, data in info.subscriptions.items()},
    }
    return call.respond(body=write_json(told))


def list_producers(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_PRODUCER_CONNECTION_LIST: the producers of a group that are connected to this broker."""
    group = call.read_header(ProducerGroupRequestHeader).producer_group
    connections = _describe(call, service.service.clients.producers.channels(group))
    if not connections:
        raise InternalError(f"the producer group[{group}] not exist")
    return call.respond(body=write_json({"connectionSet": connections}))


def list_all_producers(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_ALL_PRODUCER_INFO: the producers of all groups that are connected to this broker."""
    producers, now_ms = service.service.clients.producers, service.service.clock_ms()
    groups = {group: _describe(call, producers.channels(group)) for group in producers.groups()}
    table = {
        group: [
            {
                "clientId": each["clientId"],
                "language": each["language"],
                "lastUpdateTimestamp": now_ms,
                "remoteIP": each["clientAddr"],
                "version": each["version"],
            }
            for each in connections
        ]
        for group, connections in groups.items()
        if connections
    }
    return call.respond(body=write_json({"data": table}))


def _describe(call: RemotingCall, channels: Iterable[ClientChannel]) -> list[dict[str, Any]]:
    """Describes the connections to this broker. A client of ``v2`` has no version of Apache's libraries."""
    return [
        Connection(
            client_addr=channel.address,
            client_id=channel.client_id,
            language=channel.language if channel.language in _LANGUAGES else LanguageCode.OTHER.name,
            version=int(channel.version) if channel.version.isdecimal() else VERSION,
        ).to_json()
        for channel in channels
        if channel.is_connected_to(call.site.broker_name)
    ]


HANDLERS: Mapping[int, Handler] = {
    RequestCode.GET_CONSUMER_CONNECTION_LIST: list_consumers,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: list_producers,
    RequestCode.GET_ALL_PRODUCER_INFO: list_all_producers,
}
