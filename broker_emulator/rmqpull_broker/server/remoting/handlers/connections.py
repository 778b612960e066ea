"""The connections of groups: which clients consume and produce, for administrators (rules 3.6, 4.6)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import Any

from rmqpull_broker.core.clients.members import ClientChannel
from rmqpull_broker.core.errors import InternalError
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.admin_codec import describe_subscription
from rmqpull_broker.server.remoting.long_answers import Answer, answer
from rmqpull_broker.server.remoting.wire.admin_bodies import Connection
from rmqpull_broker.server.remoting.wire.admin_headers import ProducerGroupRequestHeader
from rmqpull_broker.server.remoting.wire.json_parts import Parts, join_entries, write_entry, write_list, write_table
from rmqpull_proto.remoting.codes import VERSION, LanguageCode, RequestCode, ResponseCode
from rmqpull_proto.remoting.headers import GroupRequestHeader
from rmqpull_proto.remoting.json_dialect import write_json

_LANGUAGES = frozenset(LanguageCode.__members__)


def list_consumers(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_CONSUMER_CONNECTION_LIST: the members of a group on this broker, and what they subscribe to."""
    group = call.read_header(GroupRequestHeader).consumer_group
    info = service.clients.consumers.find_consumer_group(group)
    channels = [] if info is None else _list_connected(call, info.channels)
    if info is None or not channels:
        return call.respond(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=f"the consumer group[{group}] not online")
    others = {
        "consumeFromWhere": info.consume_from_where.value,
        "consumeType": info.consume_type.value,
        "messageModel": info.message_model.value,
    }
    subscriptions = (
        write_entry(topic, describe_subscription(data)) for topic, data in list(info.subscriptions.items())
    )
    return answer(
        service,
        call,
        itertools.chain(
            join_entries(b'{"connectionSet":[', map(_write_connection, channels), b'],"subscriptionTable":{'),
            join_entries(b"", subscriptions, b"},"),
            [write_json(others)[1:]],
        ),
    )


def list_producers(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_PRODUCER_CONNECTION_LIST: the producers of a group that are connected to this broker."""
    group = call.read_header(ProducerGroupRequestHeader).producer_group
    channels = _list_connected(call, service.clients.producers.channels(group))
    if not channels:
        raise InternalError(f"the producer group[{group}] not exist")
    return answer(service, call, write_list("connectionSet", map(_write_connection, channels), {}))


def list_all_producers(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_ALL_PRODUCER_INFO: the producers of all groups that are connected to this broker."""
    producers, now_ms = service.clients.producers, service.clock_ms()

    def write_group(group: str) -> Parts:
        channels = _list_connected(call, producers.channels(group))
        if not channels:
            yield None
            return
        described = ((write_json(_describe_producer(channel, now_ms)),) for channel in channels)
        yield from join_entries(write_json(group) + b":[", described, b"]")

    return answer(service, call, write_table("data", map(write_group, list(producers.groups())), {}))


def _describe_producer(channel: ClientChannel, now_ms: int) -> dict[str, Any]:
    each = _describe(channel)
    return {
        "clientId": each.client_id,
        "language": each.language,
        "lastUpdateTimestamp": now_ms,
        "remoteIP": each.client_addr,
        "version": each.version,
    }


def _list_connected(call: RemotingCall, channels: Iterable[ClientChannel]) -> list[ClientChannel]:
    """Returns the connections to this broker."""
    return [channel for channel in channels if channel.is_connected_to(call.site.broker_name)]


def _write_connection(channel: ClientChannel) -> tuple[bytes]:
    return (write_json(_describe(channel).to_json()),)


def _describe(channel: ClientChannel) -> Connection:
    """Describes a connection. A client of ``apache.rocketmq.v2`` has no version number of the classic clients."""
    return Connection(
        client_addr=channel.address,
        client_id=channel.client_id,
        language=channel.language if channel.language in _LANGUAGES else LanguageCode.OTHER.name,
        version=int(channel.version) if channel.version.isdecimal() else VERSION,
    )


HANDLERS: Mapping[int, Handler] = {
    RequestCode.GET_CONSUMER_CONNECTION_LIST: list_consumers,
    RequestCode.GET_PRODUCER_CONNECTION_LIST: list_producers,
    RequestCode.GET_ALL_PRODUCER_INFO: list_all_producers,
}
