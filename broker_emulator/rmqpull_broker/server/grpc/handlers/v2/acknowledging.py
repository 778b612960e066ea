"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what follows a delivery (rules 5.13)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rmqpull_broker.core.errors import BadRequest, BrokerError, InternalError, InvalidReceiptHandle
from rmqpull_broker.core.popping.acks import check_invisible_time, give_up
from rmqpull_broker.core.popping.checks import Asked, check_receipt
from rmqpull_broker.core.popping.receipts import DeliveredMessage, parse_handle
from rmqpull_broker.core.popping.renewals import Holder
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import check_group_of_client, check_topic_of_client
from rmqpull_broker.server.grpc.wire.codec import name_from
from rmqpull_broker.server.grpc.wire.proxy_errors import name_exception
from rmqpull_broker.server.grpc.wire.status import OK, make_status
from rmqpull_broker.server.limits import BATCH_ACKS_MAX
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.runtime.slices import Slice
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


async def ack_message(service: Service, request: rpc.AckMessageRequest, caller: Caller) -> rpc.AckMessageResponse:
    """AckMessage: acknowledges messages. Each entry has its own status; a second acknowledgement is also OK."""
    caller.require_client_id()
    topic, group = _names_from(request)
    if not request.entries:
        raise InternalError("ack message result is empty")
    if len(request.entries) > BATCH_ACKS_MAX:
        raise BadRequest(f"{len(request.entries)} acknowledgements are more than the max of {BATCH_ACKS_MAX}")
    statuses, accepted = list[v2.Status](), list[DeliveredMessage]()
    slice_ = Slice()
    for entry in request.entries:
        if slice_.is_over:
            await asyncio.sleep(0)
            slice_ = Slice()
        try:
            message = await _find_message(service, caller, (group, topic), entry)
            _check_place(service, message, "ack")
            accepted.append(message)
            statuses.append(OK)
        except BrokerError as error:
            statuses.append(make_status(error))
    if accepted:
        await service.pops.acknowledge(accepted)
    entries = [
        rpc.AckMessageResultEntry(message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status)
        for entry, status in zip(request.entries, statuses, strict=True)
    ]
    return rpc.AckMessageResponse(status=_find_common(statuses), entries=entries)


async def change_invisible_duration(
    service: Service, request: rpc.ChangeInvisibleDurationRequest, caller: Caller
) -> rpc.ChangeInvisibleDurationResponse:
    """ChangeInvisibleDuration: makes a message visible again after this duration, counted from now.

    The new handle replaces the old one.
    """
    caller.require_client_id()
    topic, group = _names_from(request)
    invisible_ms = check_invisible_time(request.invisible_duration.ToMilliseconds(), 0)
    message = await _find_message(service, caller, (group, topic), request)
    _check_place(service, message, "changeInvisibleDuration")
    (receipt,) = await service.pops.change_invisible_times([message], invisible_ms)
    return rpc.ChangeInvisibleDurationResponse(status=OK, receipt_handle=receipt.handle)


async def forward_message_to_dead_letter_queue(
    service: Service, request: rpc.ForwardMessageToDeadLetterQueueRequest, caller: Caller
) -> rpc.ForwardMessageToDeadLetterQueueResponse:
    """ForwardMessageToDeadLetterQueue: makes a message a dead letter, and acknowledges it."""
    caller.require_client_id()
    topic, group = _names_from(request)
    message = await _find_message(service, caller, (group, topic), request)
    if message.receipt.physical_offset < 0:
        raise name_exception(InvalidReceiptHandle("commit log offset is empty"))
    now_ms = service.clock_ms()
    await service.group_commit.execute(lambda draft: give_up(draft, service.sender, message, now_ms))
    return rpc.ForwardMessageToDeadLetterQueueResponse(status=v2.Status(code=v2.Code.OK, message="0"))


_Change = rpc.ChangeInvisibleDurationRequest | rpc.ForwardMessageToDeadLetterQueueRequest


def _names_from(request: rpc.AckMessageRequest | _Change) -> tuple[str, str]:
    topic, group = name_from(request.topic), name_from(request.group)
    check_topic_of_client(topic)
    check_group_of_client(group)
    return topic, group


async def _find_message(
    service: Service, caller: Caller, names: tuple[str, str], named: _Change | rpc.AckMessageEntry
) -> DeliveredMessage:
    """Returns the message of a handle, by its newest receipt, and renews it no more.

    Raises InvalidReceiptHandle, or InternalError for a handle that cannot be read.
    """
    group, topic = names
    try:
        receipt = parse_handle(named.receipt_handle)
    except InvalidReceiptHandle as error:
        raise InternalError(str(error)) from error
    receipt = await service.renewer.take(Holder(caller.client_id, group), named.message_id, receipt)
    if receipt.is_expired(service.clock_ms()):
        raise name_exception(InvalidReceiptHandle("receipt handle is expired"))
    if receipt.broker_name not in service.state.broker_names:
        raise name_exception(InvalidReceiptHandle(f"cannot find broker {receipt.broker_name[:100]}"))
    return DeliveredMessage(group, receipt.find_queue(group, topic), receipt)


def _check_place(service: Service, message: DeliveredMessage, what: str) -> None:
    """Raises InternalError, as Apache's proxy, for a handle with a queue or an offset that the topic does not have."""
    queue, offset = message.queue, message.receipt.queue_offset
    asked = Asked(message.group, queue.topic, queue.queue_id, remote_address="", broker_ip="")
    try:
        check_receipt(Draft(service.state), asked, queue, offset, is_change=what != "ack")
    except BrokerError as error:
        raise InternalError(f"{what} failed: status is abnormal") from error


def _find_common(statuses: Iterable[v2.Status]) -> v2.Status:
    """The code of all entries, with its name as the text (rules 6.2), or MULTIPLE_RESULTS."""
    codes = {status.code for status in statuses}
    code = codes.pop() if len(codes) == 1 else v2.Code.MULTIPLE_RESULTS
    return v2.Status(code=code, message=v2.Code.Name(code))
