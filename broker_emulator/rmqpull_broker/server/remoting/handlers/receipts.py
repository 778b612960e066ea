"""The requests with receipts: ACK_MESSAGE, BATCH_ACK_MESSAGE, CHANGE_MESSAGE_INVISIBLETIME (rules 3.17.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.acks import change_invisible_time
from rmqpull_broker.core.popping.checks import Asked, check_receipt
from rmqpull_broker.core.popping.ordered_acks import acknowledge_any, is_behind
from rmqpull_broker.core.popping.receipts import DeliveredMessage, Receipt, TopicKind
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.limits import BATCH_ACKS_MAX
from rmqpull_broker.server.remoting.calls import NO_REMARK, Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.wire.pop_bodies import BatchAck, decode_batch_acks
from rmqpull_broker.server.remoting.wire.pop_headers import (
    AckMessageRequestHeader,
    ChangeInvisibleTimeRequestHeader,
    ChangeInvisibleTimeResponseHeader,
)
from rmqpull_broker.server.remoting.wire.pop_infos import ExtraInfo, parse_extra_info
from rmqpull_proto.names import RETRY_PREFIX
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError

_SEPARATORS = {"1": "_", "2": "+"}
"""The separator between group and topic in the name of a retry topic, by kind."""
_NO_CHANGE = ChangeInvisibleTimeResponseHeader(pop_time=0, invisible_time=0, revive_qid=0)


async def ack_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """ACK_MESSAGE. Also succeeds for a message that is no longer in flight."""
    header = call.read_header(AckMessageRequestHeader)
    asked, queue = _place_of(call, header)

    def command(draft: Draft) -> bool:
        check_receipt(draft, asked, queue, header.offset)
        return acknowledge_any(draft, _delivered_from(header, queue), asked.remote_address)

    _count(service, header.consumer_group, queue, await service.group_commit.execute(command))
    return call.respond()


def _count(service: RemotingService, group: str, queue: MessageQueue, has_ended: bool) -> None:
    if has_ended:  # anybody may name a group
        service.metrics.acknowledged[group, queue.topic] += 1


async def ack_messages(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """BATCH_ACK_MESSAGE. Offsets outside their queue are skipped."""
    _, acks = decode_batch_acks(call.command.body)
    if not acks:
        return call.respond(code=ResponseCode.NO_MESSAGE)
    count = sum(len(ack.offsets) for ack in acks)
    if count > BATCH_ACKS_MAX:
        raise WireError(f"a request with {count} acknowledgements is above the max {BATCH_ACKS_MAX}")
    remote_address, broker_name = f"/{call.peer.remote_address}", call.site.broker_name

    # A command of its own for each: in order, it must see the one before.
    state, execute = service.state, service.group_commit.execute
    messages = [message for ack in acks for message in _list_delivered(state, ack, broker_name)]
    commands = (execute(partial(acknowledge_any, message=one, remote_address=remote_address)) for one in messages)
    answers = await asyncio.gather(*commands, return_exceptions=True)
    for message, answer in zip(messages, answers, strict=True):
        _count(service, message.group, message.queue, answer is True)
    errors = [answer for answer in answers if isinstance(answer, BaseException)]
    if errors:
        raise errors[-1]
    return call.respond()


def _list_delivered(state: BrokerState, ack: BatchAck, broker_name: str) -> list[DeliveredMessage]:
    topic = ack.topic if ack.retry == "0" else f"{RETRY_PREFIX}{ack.group}{_SEPARATORS[ack.retry]}{ack.topic}"
    if state.find_topic(topic) is None:
        return []
    queue = MessageQueue(topic, broker_name, ack.queue_id)
    first, last = state.bounds(queue)
    info = ExtraInfo(ack.start_offset, ack.pop_time_ms, ack.invisible_ms, ack.revive_queue_id, broker_name)
    kept = (offset for offset in ack.offsets if first <= offset <= last)
    return [DeliveredMessage(ack.group, queue, _receipt_from(info, queue, offset)) for offset in kept]


async def change_message_invisible_time(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """CHANGE_MESSAGE_INVISIBLETIME. Responds with the fields of the new receipt."""
    header = call.read_header(ChangeInvisibleTimeRequestHeader)
    asked, queue = _place_of(call, header)
    now_ms = service.clock_ms()

    def command(draft: Draft) -> Receipt | None:
        check_receipt(draft, asked, queue, header.offset, is_change=True)
        message = _delivered_from(header, queue)
        if message.receipt.is_ordered and is_behind(draft, message):
            return None
        return change_invisible_time(draft, message, header.invisible_time, now_ms)

    try:
        receipt = await service.group_commit.execute(command)
    except BrokerError as refusal:
        return call.respond(_NO_CHANGE, code=refusal.response_code, remark=str(refusal) or NO_REMARK)
    fields = _NO_CHANGE
    if receipt is not None:
        fields = ChangeInvisibleTimeResponseHeader(
            pop_time=receipt.pop_time_ms, invisible_time=receipt.invisible_ms, revive_qid=receipt.revive_queue_id
        )
    return call.respond(fields, remark=NO_REMARK)


_Header = AckMessageRequestHeader | ChangeInvisibleTimeRequestHeader


def _place_of(call: RemotingCall, header: _Header) -> tuple[Asked, MessageQueue]:
    remote_address = f"/{call.peer.remote_address}"  # as Java writes an address
    asked = Asked(header.consumer_group, header.topic, header.queue_id, remote_address, call.site.ip)
    return asked, MessageQueue(header.topic, call.site.broker_name, header.queue_id)


def _delivered_from(header: _Header, queue: MessageQueue) -> DeliveredMessage:
    """Reads the message of a request. Topic, queue and offset are those of the header. Raises WireError."""
    receipt = _receipt_from(parse_extra_info(header.extra_info), queue, header.offset)
    return DeliveredMessage(header.consumer_group, queue, receipt)


def _receipt_from(info: ExtraInfo, queue: MessageQueue, offset: int) -> Receipt:
    kind = TopicKind.RETRY if queue.topic.startswith(RETRY_PREFIX) else TopicKind.NORMAL
    return Receipt(*info[:4], kind, info.broker_name, queue.queue_id, offset)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.ACK_MESSAGE: ack_message,
    RequestCode.BATCH_ACK_MESSAGE: ack_messages,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME: change_message_invisible_time,
}
