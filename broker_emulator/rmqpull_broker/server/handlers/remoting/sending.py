"""Sends: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE (rules 3.10.1, 4.6)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.sending import delays
from rmqpull_broker.core.sending.publishing import AutoCreation
from rmqpull_broker.core.sending.send_requests import SendRequest, send_request
from rmqpull_broker.core.sending.storing import Sent
from rmqpull_broker.server.handlers.remoting.codec import make_batch, make_message
from rmqpull_broker.server.runtime.remoting_calls import Handler, RemotingCall, RemotingService
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import (
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)
from rmqpull_proto.remoting.message_ids import make_offset_msg_id


async def send_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """All three requests. Answers when the messages are stored."""
    code, broker = call.command.code, service.service
    header = call.read_header(
        SendMessageRequestHeader if code == RequestCode.SEND_MESSAGE else SendMessageRequestHeaderV2
    )
    is_batch = bool(header.batch) or code == RequestCode.SEND_BATCH_MESSAGE
    born_ms, host = header.born_timestamp, call.peer.remote_address
    if is_batch:
        messages = make_batch(memoryview(call.command.body), header.sys_flag, born_ms, host)
    else:
        body = bytes(call.command.body)
        messages = [make_message(body, header.properties or "", header.sys_flag, born_ms, host)]
    request = SendRequest(
        topic=header.topic,
        broker_name=call.site.broker_name,
        queue_id=header.queue_id,
        creation=AutoCreation(header.default_topic, header.default_topic_queue_nums),
        is_batch=is_batch,
        reconsume_times=header.reconsume_times or 0,
        max_reconsume_times=header.max_reconsume_times,
        producer=host,
    )
    sent = await broker.group_commit.execute(
        lambda draft: send_request(broker.sender, draft, request, messages, broker.clock_ms()), len(call.command.body)
    )
    return _respond(service, call, header.topic, sent)


def _respond(service: RemotingService, call: RemotingCall, topic: str, sent: list[Sent]) -> RemotingCommand:
    queue, row = sent[0]
    find = service.service.state.physical_offsets.find
    ids = [
        make_offset_msg_id(call.site.ip, call.site.port, find(its_queue, its.queue_offset)) for its_queue, its in sent
    ]
    header = SendMessageResponseHeader(
        msg_id=",".join(ids),
        queue_id=queue.queue_id,
        queue_offset=row.queue_offset,
        transaction_id=row.message.msg_id or None,
        recall_handle=delays.make_recall_handle(topic, queue, row.message) or None,
    )
    common = {
        names.MSG_REGION: service.properties.region_id,
        names.TRACE_ON: str(service.properties.trace_on).lower(),
    }
    return call.respond({**header.to_fields(), **common})


HANDLERS: Mapping[int, Handler] = {
    RequestCode.SEND_MESSAGE: send_message,
    RequestCode.SEND_MESSAGE_V2: send_message,
    RequestCode.SEND_BATCH_MESSAGE: send_message,
}
