"""Sends: SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE (rules 3.10.1, 4.6); and RECALL_MESSAGE."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain, islice
from typing import TypeVar

import pyarrow as pa

from rmqpull_broker.core.errors import BrokerError, RequestFailed
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.sending.delays import make_recall_handle, recall
from rmqpull_broker.core.sending.publishing import AutoCreation
from rmqpull_broker.core.sending.send_requests import (
    SendRequest,
    SendResult,
    check_batch_request,
    prepare_topic,
    send_columns,
    send_request,
)
from rmqpull_broker.core.state.facts import QueuePart
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.batch_codec import PART_ROWS, PartReader, make_columns
from rmqpull_broker.server.remoting.handlers.codec import Origin, limit_time, make_message, read_batch
from rmqpull_broker.server.remoting.wire.message_ids import make_offset_msg_id, make_offset_msg_ids
from rmqpull_proto.names import RETRY_PREFIX
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.sending_headers import (
    RecallMessageRequestHeader,
    RecallMessageResponseHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
    SendMessageResponseHeader,
)

T = TypeVar("T")


async def send_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """All three requests. Responds once the messages are stored. Only field ``batch`` shows if there are several."""
    body = call.command.body
    header = call.read_header(
        SendMessageRequestHeader if call.command.code == RequestCode.SEND_MESSAGE else SendMessageRequestHeaderV2
    )
    if not body:
        raise RequestFailed("the request has no body")
    properties = names.decode_properties(header.properties or "")
    origin = Origin(header.sys_flag, limit_time(header.born_timestamp), call.peer.remote_address)
    if header.batch and len(body) > service.properties.max_message_size:
        raise RequestFailed("message body size exceeded")
    request = _make_request(call, header, properties)
    messages: Sequence[Message] | pa.RecordBatch | None = None
    try:
        if not header.batch:
            messages = [make_message(bytes(body), properties, header.flag, origin)]
        else:
            host = service.sender.store_host
            messages = make_columns(bytes(body), origin, request.reconsume_times, host)
        if messages is None:
            messages = await _read_batch(service, request, memoryview(body), origin)
        if isinstance(messages, pa.RecordBatch):
            parts = await _store(service, request, partial(send_columns, messages=messages), len(body))
            return _respond_to_columns(service, call, request, parts)
        result = await _store(service, request, partial(send_request, messages=messages), len(body))
    except RequestFailed:
        raise  # a Java exception in Apache's broker, whose response has no common fields
    except BrokerError as error:
        return call.respond(_list_common(service), code=error.response_code, remark=str(error))
    return _respond(service, call, request, result)


async def _read_batch(
    service: RemotingService, request: SendRequest, body: memoryview, origin: Origin
) -> Sequence[Message] | pa.RecordBatch:
    """Reads a batch. An invalid one is refused only after the checks of its request, as by Apache's broker."""
    reading = read_batch(body, origin)
    try:
        messages = list(islice(reading, PART_ROWS))
        if len(messages) < PART_ROWS:
            return [*messages, *reading]
        part_reader = PartReader(service.properties, service.sender.store_host, request.reconsume_times)
        parts = await service.slices.collect(part_reader.read(chain(messages, reading)))
        part_reader.check_sizes()
    except BrokerError:
        await _store(service, request, check_batch_request, 0)
        raise
    (batch,) = pa.Table.from_batches(parts).combine_chunks().to_batches()
    return batch


def _make_request(call: RemotingCall, header: SendMessageRequestHeader, properties: Mapping[str, str]) -> SendRequest:
    return SendRequest(
        topic=header.topic,
        broker_name=call.site.broker_name,
        queue_id=header.queue_id,
        creation=AutoCreation(header.default_topic, header.default_topic_queue_nums),
        is_batch=bool(header.batch),
        reconsume_times=header.reconsume_times or 0,
        max_reconsume_times=header.max_reconsume_times,
        producer=call.peer.remote_address,
        sys_flag=header.sys_flag,
        batch_properties=properties if header.batch else {},
    )


async def _store(service: RemotingService, request: SendRequest, send: Callable[..., T], byte_count: int) -> T:
    sender, execute = service.sender, service.group_commit.execute
    if service.state.find_topic(request.topic) is None:  # a separate command: the topic stays if the send is refused
        await execute(lambda draft: prepare_topic(sender, draft, request, service.clock_ms()))
    return await execute(lambda draft: send(sender, draft, request, now_ms=service.clock_ms()), byte_count)


def _respond(service: RemotingService, call: RemotingCall, request: SendRequest, result: SendResult) -> RemotingCommand:
    find = service.state.physical_offsets.find
    host, port = call.site.ip, call.site.port
    queue, row = result.sent[0]
    is_single = not request.is_batch
    recall_handle = None
    target = row.message.system_properties.get(names.REAL_TOPIC, request.topic)
    if is_single and not target.startswith(RETRY_PREFIX):
        recall_handle = make_recall_handle(target, queue, row.message)
    header = SendMessageResponseHeader(
        msg_id=",".join([make_offset_msg_id(host, port, find(to, its.queue_offset)) for to, its in result.sent]),
        queue_id=result.queue_id,
        queue_offset=row.queue_offset,
        transaction_id=row.message.msg_id if is_single else request.batch_properties.get(names.UNIQ_KEY),
        recall_handle=recall_handle,
    )
    return call.respond({**header.to_fields(), **_list_common(service)})


def _respond_to_columns(
    service: RemotingService, call: RemotingCall, request: SendRequest, parts: Sequence[QueuePart]
) -> RemotingCommand:
    (part,) = parts
    first = service.state.physical_offsets.find(part.queue, part.first_offset)
    header = SendMessageResponseHeader(
        msg_id=",".join(make_offset_msg_ids(call.site.ip, call.site.port, first, part.row_count)),
        queue_id=part.queue.queue_id,
        queue_offset=part.first_offset,
        transaction_id=request.batch_properties.get(names.UNIQ_KEY),
        recall_handle=None,
    )
    return call.respond({**header.to_fields(), **_list_common(service)})


def _list_common(service: RemotingService) -> dict[str, str]:
    """Returns the fields of all responses, including refusals."""
    return {
        names.MSG_REGION: service.properties.region_id,
        names.TRACE_ON: str(service.properties.trace_on).lower(),
    }


async def recall_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """RECALL_MESSAGE. Responds once the recall is stored. The remark of a success is that of Apache's broker."""
    header = call.read_header(RecallMessageRequestHeader)
    region = {names.MSG_REGION: service.properties.region_id}
    try:
        msg_id = await service.group_commit.execute(
            lambda draft: recall(
                draft, header.topic, header.recall_handle or "", service.clock_ms(), call.site.broker_name
            )
        )
    except BrokerError as error:
        return call.respond(region, code=error.response_code, remark=str(error))
    return call.respond(
        {**RecallMessageResponseHeader(msg_id=msg_id).to_fields(), **region}, remark="not set any response code"
    )


HANDLERS: Mapping[int, Handler] = {
    RequestCode.SEND_MESSAGE: send_message,
    RequestCode.SEND_MESSAGE_V2: send_message,
    RequestCode.SEND_BATCH_MESSAGE: send_message,
    RequestCode.RECALL_MESSAGE: recall_message,
}
