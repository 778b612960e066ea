"""Requests that the columnar and the standard client share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rmqpull_client.connection import unwrap_name, wrap_name
from rmqpull_client.errors import OffsetNotFound, OptionError, Unserved
from rmqpull_client.model import SQL92, GroupProgress, MessageFilter, MessageQueue, Part, RangeToCut, ResetTarget
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.tools_port import BrokerReset, IndexedMessages
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import ADMIN, COLUMNS, MESSAGING


def encode_queue(queue: MessageQueue) -> v2.MessageQueue:
    """Returns a queue in the form of the standard protocol."""
    topic, broker_name, queue_id = queue
    return v2.MessageQueue(topic=v2.Resource(name=topic), id=queue_id, broker=v2.Broker(name=broker_name))


def encode_filter(message_filter: MessageFilter) -> v2.FilterExpression:
    """Returns a filter in the form of both protocols."""
    is_sql = message_filter.expression_type == SQL92
    return v2.FilterExpression(
        type=v2.FilterType.SQL if is_sql else v2.FilterType.TAG, expression=message_filter.expression
    )


def list_topics(channel: BrokerChannel) -> list[str]:
    """Lists the topics of the namespace. Raises OptionError if the server lacks the admin service."""
    try:
        response = channel.call(ADMIN.methods["ListTopics"], admin.ListTopicsRequest())
    except Unserved:
        reason = explain_no_admin(channel.endpoints, "list its topics, as option topicPattern requires")
        raise OptionError(f"{reason} Name the topics instead, with option topic.") from None
    names = (
        unwrap_name(channel.connection.namespace, entry.topic.name)
        for entry in response.topics
        if not entry.topic.is_system
    )
    return [name for name in names if name is not None]


def list_groups(channel: BrokerChannel, what: str = "list its consumer groups") -> list[str]:
    """Lists the groups of the namespace. Raises OptionError if the server lacks the service that ``what`` needs."""
    try:
        response = channel.call(ADMIN.methods["ListGroups"], admin.ListGroupsRequest())
    except Unserved:
        raise OptionError(explain_no_admin(channel.endpoints, what)) from None
    names = (unwrap_name(channel.connection.namespace, entry.group.name) for entry in response.groups)
    return [name for name in names if name is not None]


def query_progress(channel: BrokerChannel, groups: Sequence[str]) -> list[GroupProgress]:
    """Asks how far groups are. Raises OptionError if the server lacks the admin service."""
    if not groups:
        return []
    # A server refuses a call that names a group which it does not have.
    found = sorted(set(groups).intersection(list_groups(channel, "tell what consumer groups consume")))
    if not found:
        return []
    namespace = channel.connection.namespace
    request = admin.QueryLagRequest(groups=[wrap_name(namespace, group) for group in found])
    response = channel.call(ADMIN.methods["QueryLag"], request)
    return sorted(
        GroupProgress(
            entry.group,
            MessageQueue(entry.queue.topic, entry.queue.broker_name, entry.queue.queue_id),
            entry.consumer_offset if entry.HasField("consumer_offset") else entry.min_offset,
            entry.max_offset,
            in_flight=entry.in_flight,
        )
        for entry in response.progress
    )


def refuse_look_ups(channel: BrokerChannel) -> IndexedMessages:
    """Raises Unserved: neither protocol over gRPC looks up messages."""
    raise Unserved("NO_INDEX", f"the server at {channel.endpoints} keeps no index over gRPC")


def prepare_reset(
    channel: BrokerChannel, group: str, queues: Sequence[MessageQueue], target: ResetTarget
) -> BrokerReset | None:
    """Returns how the broker resets a group with members; None for one without, or without the admin service."""
    try:
        response = channel.call(ADMIN.methods["ListClients"], admin.ListClientsRequest(group=group))
    except Unserved:
        return None
    members = {
        client.client_id
        for client in response.clients
        if any(own.group == group and not own.is_producer for own in client.memberships)
    }
    if not members:
        return None

    def run() -> dict[MessageQueue, int]:
        responses = (
            channel.call(ADMIN.methods["ResetOffsets"], _make_reset_request(group, target, queue))
            for queue in ((None,) if target.queue_id is None else queues)
        )
        return {
            MessageQueue(target.topic, entry.queue.broker_name, entry.queue.queue_id): entry.offset
            for response in responses
            for entry in response.queues
        }

    return BrokerReset(sorted(members), True, run)


def _make_reset_request(group: str, target: ResetTarget, queue: MessageQueue | None) -> admin.ResetOffsetsRequest:
    request = admin.ResetOffsetsRequest(group=group, topic=target.topic)
    if queue is not None:
        request.broker_name, request.queue_id = queue.broker_name, queue.queue_id
    if target.offset is None:
        request.timestamp_ms = target.timestamp_ms
    else:
        request.offset = target.offset
    return request


def explain_no_admin(endpoints: str, what: str) -> str:
    """Returns the text of the error for a server without the admin service."""
    return f"The server at {endpoints} cannot {what}: it lacks AdminService of rmqpull.v1 (extension admin)."


def get_consumer_offsets(
    channel: BrokerChannel, group: str, queues: Sequence[MessageQueue]
) -> dict[MessageQueue, int | None]:
    """Gets consumer offsets with the standard GetOffset, for all queues at once."""
    return start_get_consumer_offsets(channel, group, queues)()


def start_get_consumer_offsets(
    channel: BrokerChannel, group: str, queues: Sequence[MessageQueue]
) -> Callable[[], dict[MessageQueue, int | None]]:
    """Sends the requests for consumer offsets. The returned function waits for the responses."""
    method = MESSAGING.methods["GetOffset"]
    responses = {
        queue: channel.start(
            method, messaging.GetOffsetRequest(group=v2.Resource(name=group), message_queue=encode_queue(queue))
        )
        for queue in queues
    }

    def wait() -> dict[MessageQueue, int | None]:
        offsets: dict[MessageQueue, int | None] = {}
        for queue, response in responses.items():
            try:
                offsets[queue] = response().offset
            except OffsetNotFound:
                offsets[queue] = None
        return offsets

    return wait


def find_offsets_at(channel: BrokerChannel, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Finds offsets by store time with the standard QueryOffset, for all queues at once."""
    responses = {}
    for queue, timestamp_ms in timestamps_ms.items():
        request = messaging.QueryOffsetRequest(
            message_queue=encode_queue(queue), query_offset_policy=v2.QueryOffsetPolicy.TIMESTAMP
        )
        request.timestamp.FromMilliseconds(timestamp_ms)
        responses[queue] = channel.start(MESSAGING.methods["QueryOffset"], request)
    return {queue: response().offset for queue, response in responses.items()}


def cut_ranges(channel: BrokerChannel, wanted: Sequence[RangeToCut]) -> list[list[Part]]:
    """Cuts ranges with CutRanges of the columnar extension.

    It repeats the call for ranges that a response left unfinished. Raises OptionError if the server lacks the call.
    """
    found: list[list[Part]] = [[] for _ in wanted]
    unfinished = list(range(len(wanted)))
    while True:
        request = v1.CutRangesRequest(ranges=[_encode_rest(wanted[index], found[index]) for index in unfinished])
        try:
            response = channel.call(COLUMNS.methods["CutRanges"], request)
        except Unserved:
            raise OptionError(explain_no_sizes(channel.endpoints)) from None
        for index, cut in zip(unfinished, response.ranges, strict=True):
            found[index] += [Part(part.until_offset, part.byte_count) for part in cut.parts]
        has_progress = any(cut.parts for cut in response.ranges)
        unfinished = [index for index, cut in zip(unfinished, response.ranges, strict=True) if cut.has_more]
        if not unfinished or not has_progress:
            return found


def _encode_rest(wanted: RangeToCut, found: Sequence[Part]) -> v1.RangeToCut:
    """Returns a request for the part of a range after those that were found."""
    queue = v1.Queue(topic=wanted.queue.topic, broker_name=wanted.queue.broker_name, queue_id=wanted.queue.queue_id)
    return v1.RangeToCut(
        queue=queue,
        from_offset=found[-1].until_offset if found else wanted.from_offset,
        until_offset=wanted.until_offset,
        byte_max=wanted.byte_max,
        parts_max=wanted.parts_max - len(found) if wanted.parts_max else 0,
    )


def explain_no_sizes(endpoints: str) -> str:
    """Returns the text of the error for a server that does not report the sizes of messages."""
    return (
        f"The server at {endpoints} does not report the sizes of messages, as options maxBytesPerTrigger and "
        "maxBytesPerPartition require: it lacks CutRanges of rmqpull.v1 (extension columns). "
        "Limit the number of messages instead, with maxOffsetsPerTrigger and maxRecordsPerPartition."
    )
