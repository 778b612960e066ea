"""PutTopic: creates or changes a topic, as UPDATE_AND_CREATE_TOPIC does (rules 3.9.3)."""

from __future__ import annotations

from dataclasses import replace

from rmqpull_broker.core.admin.topics import create_topic, put_topic
from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.handlers.admin.codec import topic_to, topic_type_from
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

QUEUE_NUMS_DEFAULT = 8
"""As many as mqadmin's updateTopic asks for."""


async def answer(service: Service, request: rpc.PutTopicRequest, caller: Caller) -> rpc.PutTopicResponse:
    """What the request leaves open keeps its value, or gets its default when the topic is new."""
    creation_id = service.creation_id()

    def put(draft: Draft) -> tuple[TopicConfig, bool]:
        existing = draft.topic(request.name) if request.mode == rpc.UPDATE else draft.find_topic(request.name)
        topic = _merged(request, existing, creation_id)
        if request.mode == rpc.CREATE:
            create_topic(draft, topic)
            return existing or topic, existing is None
        return put_topic(draft, topic), existing is None

    topic, created = await service.group_commit.execute(put)
    return rpc.PutTopicResponse(status=OK, topic=topic_to(topic, is_system=False), created=created)


def _merged(request: rpc.PutTopicRequest, existing: TopicConfig | None, creation_id: str) -> TopicConfig:
    if existing is None or request.mode == rpc.CREATE:
        # A topic is created as it is asked for: one that exists must have exactly that shape.
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
