"""Calls that servers of either kind answer, and that both clients make."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from rmqpull_client.errors import OptionError, RequestRefused
from rmqpull_client.model import MessageQueue
from rmqpull_client.namespace import plain
from rmqpull_client.transports.grpc.channel import BrokerChannel, Unserved
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from rmqpull_proto.rpc import ADMIN, MESSAGING


def listed_topics(channel: BrokerChannel) -> list[str]:
    """Topics by the admin service, which a server of either kind may have."""
    try:
        answer = channel.call(ADMIN.methods["ListTopics"], admin.ListTopicsRequest())
    except Unserved:
        raise OptionError(
            f"Option topicPattern needs a list of all topics, which the server at {channel.endpoints} does not give: "
            "it lacks AdminService of rmqpull.v1 (extension admin). Name the topics with option topic instead."
        ) from None
    names = (
        plain(channel.connection.namespace, entry.topic.name) for entry in answer.topics if not entry.topic.is_system
    )
    return [name for name in names if name is not None]


def committed_offsets(
    channel: BrokerChannel, group: str, queues: Sequence[MessageQueue]
) -> dict[MessageQueue, int | None]:
    """Consumer offsets by the standard GetOffset, which every server of either kind has."""
    return start_committed_offsets(channel, group, queues)()


def start_committed_offsets(
    channel: BrokerChannel, group: str, queues: Sequence[MessageQueue]
) -> Callable[[], dict[MessageQueue, int | None]]:
    """Begins to ask for consumer offsets at once; what it returns waits for them."""
    method = MESSAGING.methods["GetOffset"]
    answers = {
        queue: channel.start(
            method, messaging.GetOffsetRequest(group=v2.Resource(name=group), message_queue=standard_queue(queue))
        )
        for queue in queues
    }

    def wait() -> dict[MessageQueue, int | None]:
        offsets: dict[MessageQueue, int | None] = {}
        for queue, answer in answers.items():
            try:
                offsets[queue] = answer().offset
            except RequestRefused as refusal:
                if refusal.code != "OFFSET_NOT_FOUND":
                    raise
                offsets[queue] = None
        return offsets

    return wait


def offsets_at_times(channel: BrokerChannel, timestamps_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
    """Searches by store time with the standard QueryOffset, all queues at once."""
    answers = {}
    for queue, timestamp_ms in timestamps_ms.items():
        request = messaging.QueryOffsetRequest(
            message_queue=standard_queue(queue), query_offset_policy=v2.QueryOffsetPolicy.TIMESTAMP
        )
        request.timestamp.FromMilliseconds(timestamp_ms)
        answers[queue] = channel.start(MESSAGING.methods["QueryOffset"], request)
    return {queue: answer().offset for queue, answer in answers.items()}


def standard_queue(queue: MessageQueue) -> v2.MessageQueue:
    """A queue as the standard protocol names it."""
    topic, broker_name, queue_id = queue
    return v2.MessageQueue(topic=v2.Resource(name=topic), id=queue_id, broker=v2.Broker(name=broker_name))
