"""DeleteTopic: a topic goes with its messages and all progress on it."""

from __future__ import annotations

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.DeleteTopicRequest, caller: Caller) -> rpc.DeleteTopicResponse:
    """Answers when the deletion is kept."""
    await service.group_commit.execute(lambda draft: delete_topic(draft, request.name))
    return rpc.DeleteTopicResponse(status=OK)
