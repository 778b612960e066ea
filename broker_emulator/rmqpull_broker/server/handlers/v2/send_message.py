"""SendMessage: one message, or several of one topic (rules 5.11)."""

from __future__ import annotations

from collections.abc import Iterator

from rmqpull_broker.core.admin.naming import check_topic_name
from rmqpull_broker.core.errors import MessageCorrupted
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.sending.delays import recall_handle
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import message_from, name_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def answer(service: Service, request: rpc.SendMessageRequest, caller: Caller) -> rpc.SendMessageResponse:
    """Answers when the messages are kept, with one entry for each, in their order."""
    caller.require_client_id()
    if not request.messages:
        raise MessageCorrupted("no message to send")
    topic = name_of(request.messages[0].topic)
    check_topic_name(topic)
    came_ms = service.clock_ms()

    def messages() -> Iterator[Message]:
        # One by one: each is judged by all rules before the next one is looked at.
        for message in request.messages:
            if name_of(message.topic) != topic:
                raise MessageCorrupted("topic in message is not same")
            yield message_from(message, caller.host, came_ms)

    sent = await service.group_commit.execute(
        lambda draft: service.sender.send(draft, topic, messages(), service.clock_ms()), request.ByteSize()
    )
    entries = [
        rpc.SendResultEntry(
            status=OK,
            message_id=row.message.msg_id,
            # Also for ordinary messages (rules 6.2).
            transaction_id=row.message.msg_id,
            # That of the queue where a delayed or half message waits.
            offset=row.queue_offset,
            recall_handle=recall_handle(topic, queue, row.message),
        )
        for queue, row in sent
    ]
    return rpc.SendMessageResponse(status=OK, entries=entries)
