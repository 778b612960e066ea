"""Topics, groups, progress, clients and fault rules as messages of the admin service."""

from __future__ import annotations

from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultReport
from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import GroupConfig, TopicConfig, TopicType
from rmqpull_broker.core.popping.in_flight_listing import ListedMessage
from rmqpull_broker.core.pulling.consumer_offsets import QueueProgress
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.fault_names import CODE_NAMES
from rmqpull_broker.server.grpc.wire.codec import column_queue_to, retry_policy_to
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_INT64_MAX = (1 << 63) - 1


def topic_to(topic: TopicConfig, *, is_system: bool) -> rpc.Topic:
    """Converts a topic."""
    return rpc.Topic(
        name=topic.name,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        message_type=topic.topic_type.value,
        order=topic.order,
        creation_id=topic.creation_id,
        is_system=is_system,
    )


def topic_type_from(name: str) -> TopicType:
    """Parses the name of a topic type, in upper or lower case. Raises BadRequest for an unknown one."""
    try:
        return TopicType[name.upper()]
    except KeyError:
        types = ", ".join(topic_type.value for topic_type in TopicType)
        raise BadRequest(f"unknown message.type {name!r}: use one of {types}") from None


def group_to(group: GroupConfig) -> rpc.Group:
    """Converts a group."""
    return rpc.Group(
        name=group.name,
        consume_enable=group.consume_enable,
        consume_broadcast_enable=group.consume_broadcast_enable,
        consume_message_orderly=group.consume_message_orderly,
        retry_queue_nums=group.retry_queue_nums,
        retry_max_times=group.retry_max_times,
        notify_consumer_ids_changed_enable=group.notify_consumer_ids_changed_enable,
        retry_policy=None if group.retry_policy is None else retry_policy_to(group.retry_policy),
    )


def progress_to(progress: QueueProgress) -> rpc.QueueProgress:
    """Converts a group's progress in a queue."""
    return rpc.QueueProgress(
        group=progress.group,
        queue=column_queue_to(progress.queue),
        consumer_offset=progress.consumer_offset,
        min_offset=progress.bounds.min_offset,
        max_offset=progress.bounds.max_offset,
        lag=progress.lag,
        in_flight=progress.in_flight,
    )


def in_flight_to(listed: ListedMessage) -> rpc.InFlightMessage:
    """Converts a message in flight. Clients of the remoting protocol may request any invisible time."""
    flight, message = listed.in_flight, listed.stored.message
    return rpc.InFlightMessage(
        group=flight.group,
        queue=column_queue_to(flight.queue),
        queue_offset=flight.queue_offset,
        message_id=message.msg_id,
        tag=message.tags or "",
        keys=message.keys,
        delivery_attempt=listed.attempt,
        delivered_timestamp_ms=flight.pop_time_ms,
        visible_timestamp_ms=max(-_INT64_MAX, min(flight.visible_ms, _INT64_MAX)),
    )


def fault_rule_to(faults: Faults, report: FaultReport) -> rpc.FaultRule:
    """Converts a fault rule, with the number of its faults so far."""
    rule = report.rule
    code_name = rule.code if rule.action is FaultAction.FAIL else None
    return rpc.FaultRule(
        id=report.rule_id,
        rpc=rule.rpc,
        topic=rule.topic,
        broker_name=rule.broker_name,
        queue_id=rule.queue_id,
        client_id=rule.client_id,
        group=rule.group,
        action=rule.action.name,
        after=rule.after,
        times=rule.times,
        code=code_name if code_name in CODE_NAMES else None,
        code_name=code_name,
        message=rule.message,
        delay_ms=rule.delay_ms,
        struck=report.injected,
        kept=faults.count_waiting(report.rule_id),
    )


def clients_to(clients: Clients, group: str = "") -> list[rpc.Client]:
    """Lists the registered clients by id; with ``group``, only its members."""
    memberships = _memberships(clients)
    return [
        rpc.Client(
            client_id=channel.client_id,
            client_type=client_type,
            language=channel.language,
            version=channel.version,
            last_heartbeat_timestamp_ms=seen_ms,
            memberships=memberships.get(channel.client_id, {}).values(),
        )
        for channel, client_type, seen_ms in clients.list_clients()
        if not group or any(entry.group == group for entry in memberships.get(channel.client_id, {}).values())
    ]


def _memberships(clients: Clients) -> dict[str, dict[tuple[str, bool], rpc.ClientMembership]]:
    """The groups of each client, as a consumer and as a producer. A client may have a channel for each broker."""
    found: dict[str, dict[tuple[str, bool], rpc.ClientMembership]] = {}
    for info in clients.consumers.list_consumer_groups():
        membership = rpc.ClientMembership(
            group=info.group,
            message_model=info.message_model.value,
            subscriptions=map(_subscription_to, info.subscriptions.values()),
        )
        for channel in info.channels:
            found.setdefault(channel.client_id, {})[info.group, False] = membership
    for group in clients.producers.groups():
        for channel in clients.producers.channels(group):
            membership = rpc.ClientMembership(group=group, is_producer=True)
            found.setdefault(channel.client_id, {})[group, True] = membership
    return found


def _subscription_to(data: SubscriptionData) -> rpc.ClientSubscription:
    return rpc.ClientSubscription(topic=data.topic, expression_type=data.expression_type, expression=data.expression)
