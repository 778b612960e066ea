"""The members of groups: heartbeats, who is a member, and the locks of queues (rules 3.6 to 3.8)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.admin.request_modes import POP, find_request_mode, put_request_mode
from rmqpull_broker.core.clients.assignments import assign_queues, assign_queues_to_pop
from rmqpull_broker.core.clients.heartbeats import Heartbeat
from rmqpull_broker.core.clients.members import (
    ClientChannel,
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
)
from rmqpull_broker.core.clients.subscriptions import SubscriptionData, check_client_config, make_subscription_data
from rmqpull_broker.core.errors import BadRequest, IllegalFilterExpression
from rmqpull_broker.core.model import GroupConfig, MessageQueue
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.core.state.facts import RequestModeSet
from rmqpull_broker.core.steps import sort_in_steps, walk
from rmqpull_broker.server.limits import HEARTBEAT_GROUPS_MAX, HEARTBEAT_TOPICS_MAX
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.long_answers import Answer, answer
from rmqpull_broker.server.remoting.wire.client_bodies import decode_client_check, decode_heartbeat, encode_client_ids
from rmqpull_broker.server.remoting.wire.json_parts import Parts
from rmqpull_broker.server.remoting.wire.pop_bodies import RequestMode, decode_request_mode, encode_request_modes
from rmqpull_broker.server.remoting.wire.queue_bodies import (
    LockRequest,
    decode_assignment_query,
    encode_assignments,
    write_locked,
)
from rmqpull_broker.server.runtime.slices import Slice
from rmqpull_proto.remoting.codes import LanguageCode, RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.headers import GroupRequestHeader, UnregisterClientRequestHeader
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription


async def take_heartbeat(service: RemotingService, call: RemotingCall) -> RemotingCommand | None:
    """HEART_BEAT: registers the client in its groups, and creates those that are missing."""
    data = decode_heartbeat(call.command.body)
    _check_size(data)
    heartbeat = await _heartbeat_from(service, call, data)
    names = [consumer.group for consumer in heartbeat.consumers]
    groups = await service.ensure_groups(names)
    if not call.peer.is_open:  # it was closed while the log stored the groups
        return None
    answer = service.clients.take_heartbeat(heartbeat, groups, call.peer)
    return call.respond({"IS_SUPPORT_HEART_BEAT_V2": "true", "IS_SUB_CHANGE": str(answer.is_sub_change).lower()})


def _check_size(data: HeartbeatData) -> None:
    groups = len(data.consumers) + len(data.producer_groups)
    if groups > HEARTBEAT_GROUPS_MAX:
        raise BadRequest(f"a heartbeat with {groups} groups is above the max {HEARTBEAT_GROUPS_MAX}")
    topics = sum(len(consumer.subscriptions) for consumer in data.consumers)
    if topics > HEARTBEAT_TOPICS_MAX:
        raise BadRequest(f"a heartbeat with {topics} topics is above the max {HEARTBEAT_TOPICS_MAX}")


async def _heartbeat_from(service: RemotingService, call: RemotingCall, data: HeartbeatData) -> Heartbeat:
    """Others have their turns between slices of this: thousands of subscriptions take longer than one."""
    now_ms, slice_ = service.clock_ms(), Slice()
    consumers: list[ConsumerData] = []
    for member in data.consumers:
        subscriptions: list[SubscriptionData] = []
        for subscription in member.subscriptions:
            if slice_.is_over:
                await service.slices.pause()
                slice_ = Slice()
            subscriptions.append(_subscription_from(subscription, now_ms))
        consumers.append(_consumer_from(member, tuple(subscriptions)))
    if service.properties.reject_pull_consumer_enable:
        consumers = [consumer for consumer in consumers if consumer.consume_type is not ConsumeType.ACTIVELY]
    channel = _channel_of(call, data.client_id)
    return Heartbeat(channel, tuple(consumers), data.producer_groups, data.fingerprint, data.without_sub)


def _channel_of(call: RemotingCall, client_id: str) -> ClientChannel:
    language = LanguageCode(call.command.language).name if call.command.language in _LANGUAGES else "OTHER"
    version, broker_name = str(call.command.version), call.site.broker_name
    return ClientChannel(call.peer.channel_id, client_id, language, version, broker_name, call.peer.remote_address)


def _consumer_from(consumer: GroupMembership, subscriptions: tuple[SubscriptionData, ...]) -> ConsumerData:
    start = consumer.consume_from_where
    return ConsumerData(
        consumer.group_name,
        subscriptions,
        ConsumeType(consumer.consume_type),
        MessageModel(consumer.message_model),
        # The values in between are from old clients; Java's clients start at the end for them.
        ConsumeFromWhere(start) if start in _STARTS else ConsumeFromWhere.LAST_OFFSET,
    )


def _subscription_from(subscription: Subscription, now_ms: int) -> SubscriptionData:
    version = now_ms if subscription.sub_version is None else subscription.sub_version
    topic, kind, expression = subscription.topic, subscription.expression_type, subscription.sub_string
    try:
        return make_subscription_data(topic, kind, expression, version)
    except IllegalFilterExpression:  # "||" has no tag; no real client sends it
        return SubscriptionData(topic, expression, version, kind)


async def unregister_client(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """UNREGISTER_CLIENT: a client leaves a group of producers, a group of consumers, or both."""
    header = call.read_header(UnregisterClientRequestHeader)
    clients, channel_id, group = service.clients, call.peer.channel_id, header.consumer_group
    if header.producer_group is not None:
        clients.producers.unregister(header.producer_group, channel_id)
    if group is not None:
        config = await service.execute(partial(find_or_create_group, name=group))
        clients.leave_group(config or GroupConfig(group), channel_id)
    return call.respond()


def list_consumers(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_CONSUMER_LIST_BY_GROUP: the client ids of the members on this broker, of both protocols."""
    group = call.read_header(GroupRequestHeader).consumer_group
    client_ids = service.clients.consumers.list_client_ids(group, call.site.broker_name)
    return call.respond(body=encode_client_ids(client_ids))


def query_assignment(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_ASSIGNMENT: the share of a consumer that leaves the allocation to the broker, and whether it pops it."""
    query, state = decode_assignment_query(call.command.body), service.state
    topic = state.find_topic(query.topic)
    if topic is None:
        return call.respond(body=encode_assignments(None))
    queues = state.list_readable_queues(topic) if topic.is_readable else []
    chosen = find_request_mode(state, query.topic, query.group)
    if query.message_model == MessageModel.BROADCASTING.value:
        return call.respond(body=encode_assignments(queues, chosen.mode))
    members = service.clients.consumers.members(query.group)
    client_ids = [member.client_id for member in members if member.is_connected_to(call.site.broker_name)]
    asked = (queues, client_ids, query.client_id, query.strategy)
    pops = chosen.mode == POP
    found = assign_queues_to_pop(*asked, chosen.pop_share_queue_num) if pops else assign_queues(*asked)
    return call.respond(body=encode_assignments(found, chosen.mode))


async def set_request_mode(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """SET_MESSAGE_REQUEST_MODE: whether members of a group that leave the allocation to the broker pull or pop."""
    wanted = decode_request_mode(call.command.body)
    await service.group_commit.execute(partial(put_request_mode, wanted=RequestModeSet(*wanted)))
    return call.respond()


def list_request_modes(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_ALL_MESSAGE_REQUEST_MODE: what was set, by topic and group."""
    return answer(service, call, _write_request_modes(service))


def _write_request_modes(service: RemotingService) -> Parts:
    modes: dict[str, list[RequestMode]] = {}
    for piece in walk(service.state.request_modes.values()):
        for one in piece:
            mode = RequestMode(one.topic, one.group, one.mode, one.pop_share_queue_num)
            modes.setdefault(one.topic, []).append(mode)
        yield None
    yield from encode_request_modes(modes)


def check_config(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """CHECK_CLIENT_CONFIG: checks a filter expression before the client uses it."""
    subscription = decode_client_check(call.command.body)
    if subscription is not None:
        kind, enabled = subscription.expression_type, service.properties.enable_property_filter
        check_client_config(kind, subscription.sub_string, enable_property_filter=enabled)
    return call.respond()


def lock_queues(service: RemotingService, call: RemotingCall) -> Answer:
    """LOCK_BATCH_MQ: locks or renews the queues that the client may have, and returns them."""
    return answer(service, call, _lock(service, call))


def _lock(service: RemotingService, call: RemotingCall) -> Parts:
    request = yield from LockRequest.decode_in_steps(call.command.body)
    queues, now_ms = (MessageQueue(*queue) for queue in request.queues), service.steady_ms()
    locked = yield from service.clients.locks.lock_in_steps(
        request.group or "", request.client_id, queues, now_ms, find_holder(call.peer.remote_address)
    )
    yield from write_locked((yield from sort_in_steps(locked)))


def unlock_queues(service: RemotingService, call: RemotingCall) -> Answer:
    """UNLOCK_BATCH_MQ: releases the client's own locks."""
    return answer(service, call, _unlock(service, call))


def _unlock(service: RemotingService, call: RemotingCall) -> Parts:
    request = yield from LockRequest.decode_in_steps(call.command.body)
    if request.group is None:
        raise WireError("consumerGroup is missing in the body of UNLOCK_BATCH_MQ")
    queues = (MessageQueue(*queue) for queue in request.queues)
    yield from service.clients.locks.unlock_in_steps(request.group, request.client_id, queues)


_LANGUAGES = frozenset(LanguageCode)
_STARTS = frozenset(start.value for start in ConsumeFromWhere)

HANDLERS: Mapping[int, Handler] = {
    RequestCode.HEART_BEAT: take_heartbeat,
    RequestCode.UNREGISTER_CLIENT: unregister_client,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP: list_consumers,
    RequestCode.CHECK_CLIENT_CONFIG: check_config,
    RequestCode.QUERY_ASSIGNMENT: query_assignment,
    RequestCode.SET_MESSAGE_REQUEST_MODE: set_request_mode,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE: list_request_modes,
    RequestCode.LOCK_BATCH_MQ: lock_queues,
    RequestCode.UNLOCK_BATCH_MQ: unlock_queues,
}
