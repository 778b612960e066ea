"""RecallMessage: takes a delayed message back before it is delivered (rules 5.15, 4.6)."""

from __future__ import annotations

from rmqpull_broker.core.admin.naming import check_topic_name
from rmqpull_broker.core.errors import MessagePropertyConflictWithType
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.core.sending.delays import recall
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import name_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.RecallMessageRequest, caller: Caller) -> rpc.RecallMessageResponse:
    """Answers when the message will not come any more, with its id."""
    caller.require_client_id()
    name = name_of(request.topic)
    check_topic_name(name)
    topic_type = service.state.topic(name).topic_type
    if topic_type not in (TopicType.DELAY, TopicType.MIXED):
        raise MessagePropertyConflictWithType(
            f"TopicMessageType validate failed, the expected type is {TopicType.DELAY.value}, "
            f"but actual type is {topic_type.value}"
        )
    msg_id = await service.group_commit.execute(
        lambda draft: recall(draft, name, request.recall_handle, service.clock_ms())
    )
    return rpc.RecallMessageResponse(status=OK, message_id=msg_id)
