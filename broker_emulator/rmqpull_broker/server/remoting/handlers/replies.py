"""Request and reply: a consumer's reply goes to the producer that waits for it (rules 4.6).

The producer sends its request as an ordinary message, with its client id in REPLY_TO_CLIENT. The consumer sends its
reply to the broker of that message, which pushes it to the producer and also stores it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rmqpull_broker.core.errors import RequestFailed
from rmqpull_broker.core.sending.publishing import AutoCreation
from rmqpull_broker.core.sending.send_requests import SendRequest, send_request
from rmqpull_broker.server.peers import make_request
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.codec import Origin, limit_time, make_message
from rmqpull_broker.server.remoting.wire.message_ids import make_offset_msg_id
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.sending_headers import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)

PUSH_WITHIN_MS = 10_000


async def send_reply(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """SEND_REPLY_MESSAGE and SEND_REPLY_MESSAGE_V2. Responds once the producer has taken the reply, or could not."""
    is_short = call.command.code == RequestCode.SEND_REPLY_MESSAGE_V2
    header = call.read_header(SendMessageRequestHeaderV2 if is_short else SendMessageRequestHeader)
    response = await _store(service, call, header)
    failure = await _push(service, call, header)
    common = {
        names.MSG_REGION: service.properties.region_id,
        names.TRACE_ON: str(service.properties.trace_on).lower(),
    }
    fields = {**response.to_fields(), **common}
    if failure:
        return call.respond(fields, code=ResponseCode.SYSTEM_ERROR, remark=failure)
    return call.respond(fields)


async def _store(
    service: RemotingService, call: RemotingCall, header: SendMessageRequestHeader
) -> SendMessageResponseHeader:
    if not call.command.body:
        raise RequestFailed("the request has no body")
    peer = call.peer
    origin = Origin(header.sys_flag, limit_time(header.born_timestamp), peer.remote_address)
    properties = names.decode_properties(header.properties or "")
    messages = [make_message(bytes(call.command.body), properties, header.flag, origin)]
    request = SendRequest(
        topic=header.topic,
        broker_name=call.site.broker_name,
        queue_id=header.queue_id,
        creation=AutoCreation(header.default_topic, header.default_topic_queue_nums),
        reconsume_times=header.reconsume_times or 0,
        producer=peer.remote_address,
        sys_flag=header.sys_flag,
    )
    result = await service.group_commit.execute(
        lambda draft: send_request(service.sender, draft, request, messages, service.clock_ms()), len(call.command.body)
    )
    ((queue, row),) = result.sent
    place = service.state.physical_offsets.find(queue, row.queue_offset)
    return SendMessageResponseHeader(
        msg_id=make_offset_msg_id(call.site.ip, call.site.port, place),
        queue_id=result.queue_id,
        queue_offset=row.queue_offset,
    )


async def _push(service: RemotingService, call: RemotingCall, header: SendMessageRequestHeader) -> str:
    """Sends a reply to its producer. Returns why that failed, or an empty text."""
    properties = names.decode_properties(header.properties or "")
    client_id = properties.get(names.REPLY_TO_CLIENT)
    if client_id is None:
        return f"reply message properties[{names.REPLY_TO_CLIENT}] is null"
    clients, now_ms = service.clients, service.clock_ms()
    channel = clients.producers.find_by_client_id(client_id, call.site.broker_name)
    peer = None if channel is None else clients.peers.find(channel)
    if peer is None:
        return f"push reply message fail, channel of <{client_id}> not found."
    push = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=names.encode_properties({**properties, names.PUSH_REPLY_TIME: str(now_ms)}),
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=call.peer.remote_address,
        store_host=call.site.address,
        store_timestamp=now_ms,
    )
    command = make_request(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push, call.command.body)
    try:
        response = await peer.ask(command, PUSH_WITHIN_MS)
    except (TimeoutError, asyncio.TimeoutError, ConnectionError):
        return f"push reply message to {client_id}fail."
    return "" if response.code == ResponseCode.SUCCESS else f"push reply message to {client_id}fail."


HANDLERS: Mapping[int, Handler] = {
    RequestCode.SEND_REPLY_MESSAGE: send_reply,
    RequestCode.SEND_REPLY_MESSAGE_V2: send_reply,
}
