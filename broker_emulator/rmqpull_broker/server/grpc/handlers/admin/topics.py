"""PutTopic, ListTopics, DescribeTopic and DeleteTopic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rmqpull_broker.core.admin import topics
from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.bounds import read_store_time_ms
from rmqpull_broker.core.pulling.consumer_offsets import list_groups_on
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.grpc.handlers.admin.codec import topic_to, topic_type_from
from rmqpull_broker.server.grpc.long_response import respond
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

QUEUE_NUMS_DEFAULT = 8
"""The default of mqadmin's updateTopic."""


async def put_topic(service: Service, request: rpc.PutTopicRequest, caller: Caller) -> rpc.PutTopicResponse:
    """PutTopic: creates or changes a topic, as UPDATE_AND_CREATE_TOPIC does (rules 3.9.3).

    A field that the request leaves out keeps its value; a new topic gets the default.
    """
    creation_id = service.make_creation_id()
    refusal = service.access.find_refusal("PutTopic", caller.address, f"topic {request.name}")

    def put(draft: Draft) -> tuple[TopicConfig, bool]:
        existing = draft.require_topic(request.name) if request.mode == rpc.UPDATE else draft.find_topic(request.name)
        topic = _merge(request, existing, creation_id)
        if request.mode == rpc.CREATE:
            topics.create_topic(draft, topic)
            return existing or topic, existing is None
        return topics.put_topic(draft, topic, refusal), existing is None

    topic, created = await service.group_commit.execute(put)
    return rpc.PutTopicResponse(status=OK, topic=topic_to(topic, is_system=False), created=created)


def _merge(request: rpc.PutTopicRequest, existing: TopicConfig | None, creation_id: str) -> TopicConfig:
    """Returns the topic that the request describes."""
    if existing is None or request.mode == rpc.CREATE:
        # Start from the defaults even if the topic exists: create_topic compares it with exactly this shape.
        read = request.read_queue_nums if request.HasField("read_queue_nums") else None
        write = request.write_queue_nums if request.HasField("write_queue_nums") else None
        either = write if read is None else read
        default = QUEUE_NUMS_DEFAULT if either is None else either
        existing = TopicConfig(request.name, default, default, creation_id=creation_id)
    fields = ("read_queue_nums", "write_queue_nums", "perm", "order")
    given = {name: getattr(request, name) for name in fields if request.HasField(name)}
    if request.HasField("message_type"):
        given["topic_type"] = topic_type_from(request.message_type)
    return replace(existing, **given)


async def list_topics(service: Service, request: rpc.ListTopicsRequest, caller: Caller) -> rpc.ListTopicsResponse:
    """ListTopics: returns all topics by name, each with the number of its messages.

    The broker's own topics are included only on request.
    """
    system = service.state.system_topics if request.with_system_topics else {}
    listed = {**system, **service.state.topics}
    parts = (rpc.ListTopicsResponse(topics=[_summary(service, listed[name])]) for name in sorted(listed))
    return await respond(service.slices, rpc.ListTopicsResponse(status=OK), parts)


def _summary(service: Service, topic: TopicConfig) -> rpc.TopicSummary:
    bounds = map(service.state.bounds, service.state.list_readable_queues(topic))
    return rpc.TopicSummary(
        topic=topic_to(topic, is_system=topic.name in service.state.system_topics),
        message_count=sum(last - first for first, last in bounds),
    )


async def describe_topic(
    service: Service, request: rpc.DescribeTopicRequest, caller: Caller
) -> rpc.DescribeTopicResponse:
    """DescribeTopic: returns a topic with all of its queues, readable or writable, and the groups that read it."""
    state = service.state
    topic = state.require_topic(request.name)
    queues = state.queues(topic, max(topic.read_queue_nums, topic.write_queue_nums))
    head = rpc.DescribeTopicResponse(status=OK, topic=topic_to(topic, is_system=topic.name in state.system_topics))

    def list_parts() -> Iterator[rpc.DescribeTopicResponse | None]:
        for queue in queues:
            yield rpc.DescribeTopicResponse(queues=[_queue_to(service, topic, queue)])
        for name in (yield from list_groups_on(state, topic.name)):
            yield rpc.DescribeTopicResponse(groups=[name])

    return await respond(service.slices, head, list_parts())


def _queue_to(service: Service, topic: TopicConfig, queue: MessageQueue) -> rpc.TopicQueue:
    bounds = service.state.bounds(queue)
    has_messages = bounds.min_offset < bounds.max_offset
    return rpc.TopicQueue(
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        is_readable=topic.is_readable and queue.queue_id < topic.read_queue_nums,
        is_writable=topic.is_writable and queue.queue_id < topic.write_queue_nums,
        min_offset=bounds.min_offset,
        max_offset=bounds.max_offset,
        oldest_store_timestamp_ms=read_store_time_ms(service.state, queue, bounds.min_offset) if has_messages else None,
        newest_store_timestamp_ms=read_store_time_ms(service.state, queue, bounds.max_offset - 1)
        if has_messages
        else None,
    )


async def delete_topic(service: Service, request: rpc.DeleteTopicRequest, caller: Caller) -> rpc.DeleteTopicResponse:
    """DeleteTopic: deletes a topic, its messages and all consumer offsets on it. Responds once that is stored."""
    await service.group_commit.execute(lambda draft: topics.delete_topic(draft, request.name))
    return rpc.DeleteTopicResponse(status=OK)
