"""Pops: POP_MESSAGE, and requests that deliver nothing: PEEK_MESSAGE, NOTIFICATION, POLLING_INFO (rules 3.17)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from rmqpull_broker.core.clients.members import ConsumeType
from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.errors import BrokerError, RequestFailed, TooManyRequests
from rmqpull_broker.core.filters.message_filter import EVERYTHING, TAG, MessageFilter, TagFilter
from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.popping.checks import Asked, check_pop, check_reader, make_pop_filter
from rmqpull_broker.core.popping.order import find_block_end_ms
from rmqpull_broker.core.popping.queue_order import PERCENT, list_peeked_queues
from rmqpull_broker.core.popping.receipts import ORDER_REVIVE_QUEUE
from rmqpull_broker.core.popping.request import ALL_QUEUES, InitMode, PopRequest, PopResult
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import name_pop_retry_topic
from rmqpull_broker.server.remoting.calls import NO_REMARK, Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.pop_codec import describe_part, encode_messages
from rmqpull_broker.server.remoting.wire.pop_headers import (
    NotificationRequestHeader,
    NotificationResponseHeader,
    PeekMessageRequestHeader,
    PollingInfoRequestHeader,
    PollingInfoResponseHeader,
    PopMessageRequestHeader,
    PopMessageResponseHeader,
)
from rmqpull_broker.server.remoting.wire.pop_infos import (
    write_consumed_times,
    write_message_offsets,
    write_start_offsets,
)
from rmqpull_broker.server.runtime.pops import ENDS_EARLY_MS, NOTHING
from rmqpull_broker.server.runtime.service import Caller
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.header_fields import Header

_FOUND, _NOT_FOUND = "FOUND", "NO_MESSAGE_IN_QUEUE"
_TIME_MAX = (1 << 63) - 1
_NO_POP = PopMessageResponseHeader(pop_time=0, invisible_time=0, revive_qid=0, rest_num=0)


# --- pops -------------------------------------------------------------------------------------------------------------


def _find_invisible_ms(header: PopMessageRequestHeader, now_ms: int) -> int:
    """Returns the invisible time of a pop, in milliseconds.

    One that overflows Java's long has already passed: Apache's broker adds it to the pop time, and the sum is negative.
    """
    return header.invisible_time if now_ms + header.invisible_time <= _TIME_MAX else 0


async def pop_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """POP_MESSAGE: delivers messages, or waits for the first one until the time that the consumer names."""
    header = call.read_header(PopMessageRequestHeader)
    born_ms = _find_born_ms(service, header.born_time)
    service.clients.consumers.compensate(header.consumer_group, ConsumeType.POP)
    late_ms = service.clock_ms() - born_ms - header.poll_time
    verdict = await service.execute(partial(_check_pop, call=call, header=header, late_ms=late_ms))
    if isinstance(verdict, BrokerError):
        return _refuse(call, verdict, _NO_POP)
    _compensate(service, header, verdict)
    request = PopRequest(
        header.consumer_group,
        header.topic,
        call.site.broker_name,
        max(header.queue_id, ALL_QUEUES),
        header.max_msg_nums,
        _find_invisible_ms(header, service.clock_ms()),
        verdict,
        header.order or False,
        header.attempt_id or "",
        InitMode.MIN if header.init_mode == InitMode.MIN else InitMode.MAX,
    )
    code, poll_ms = ResponseCode.POLLING_TIMEOUT, 0
    if header.poll_time > 0 and header.max_msg_nums:
        poll_ms = max(0, born_ms + header.poll_time - ENDS_EARLY_MS - service.clock_ms())
    try:
        with call.peer.ending_with_connection():
            result = await service.pops.pop(request, poll_ms, holder=find_holder(call.peer.remote_address))
    except TooManyRequests:
        code, result = ResponseCode.POLLING_FULL, NOTHING
    if not call.peer.is_open:
        service.pops.release_all(header.consumer_group, result)
    return _respond(service, call, header, result, code)


def _find_born_ms(service: RemotingService, born_ms: int) -> int:
    """Returns when a consumer began to wait. A clock that a test moves tells nothing about that of the consumer."""
    return service.clock_ms() if service.clock_mover.is_manual or not born_ms else born_ms


def _check_pop(
    draft: Draft, call: RemotingCall, header: PopMessageRequestHeader, late_ms: int
) -> MessageFilter | BrokerError:
    """Returns the filter of a pop, or a refusal. It is not raised, so that a group that was created stays."""
    asked = _asked_from(call, header.consumer_group, header.topic, header.queue_id)._replace(what="pop")
    try:
        check_pop(draft, asked, late_ms, header.max_msg_nums)
        message_filter = make_pop_filter(draft, header.exp_type, header.exp)
    except BrokerError as refusal:
        return refusal
    if header.max_msg_nums < 0:
        return RequestFailed(f"IllegalArgumentException: Illegal Capacity: {header.max_msg_nums}")
    return message_filter


def _asked_from(call: RemotingCall, group: str, topic: str, queue_id: int) -> Asked:
    return Asked(group, topic, queue_id, f"/{call.peer.remote_address}", call.site.ip)  # as Java writes an address


def _refuse(call: RemotingCall, refusal: BrokerError, header: Header | None) -> RemotingCommand:
    """Makes a refusal. Apache's broker sends it with the still empty header of the response."""
    # The response to a Java exception has no header.
    fields = None if isinstance(refusal, RequestFailed) and "Exception" in str(refusal) else header
    return call.respond(fields, code=refusal.response_code, remark=str(refusal) or None)


def _compensate(service: RemotingService, header: PopMessageRequestHeader, message_filter: MessageFilter) -> None:
    """Keeps the subscription of a group that may never send a heartbeat."""
    group, kind, now_ms = header.consumer_group, header.exp_type or TAG, service.clock_ms()
    tags = message_filter.tags if isinstance(message_filter, TagFilter) else None
    subscription = SubscriptionData(header.topic, header.exp or "*", now_ms, kind, tags or frozenset())
    consumers = service.clients.consumers
    consumers.compensate_subscription(group, subscription)
    retry = SubscriptionData(name_pop_retry_topic(group, header.topic), "*", now_ms, kind)
    consumers.compensate_subscription(group, retry)


def _respond(
    service: RemotingService,
    call: RemotingCall,
    header: PopMessageRequestHeader,
    result: PopResult,
    code: ResponseCode,
) -> RemotingCommand:
    """Makes the response to a pop; ``code`` is that of a response without messages."""
    is_found = result.message_count > 0
    body = b"".join(encode_messages(service, header, result)) if is_found else b""
    queues = [describe_part(part) for part in result.parts]
    revive_queue_id = ORDER_REVIVE_QUEUE if header.order else result.revive_queue_id
    fields = PopMessageResponseHeader(
        pop_time=result.pop_time_ms or service.clock_ms(),
        invisible_time=header.invisible_time,
        revive_qid=revive_queue_id,
        rest_num=result.rest_count,
        start_offset_info=write_start_offsets(queues),
        msg_offset_info=write_message_offsets(queues),
        order_count_info=write_consumed_times(queues) if header.order else None,
    )
    return call.respond(
        fields,
        body,
        code=ResponseCode.SUCCESS if is_found else code,
        remark=_FOUND if is_found else _NOT_FOUND,
    )


# --- requests that deliver nothing ------------------------------------------------------------------------------------


async def peek_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """PEEK_MESSAGE: what a pop would find. Messages to be redelivered are shown in their retry topic."""
    header = call.read_header(PeekMessageRequestHeader)
    topic = await _check_reader(service, call, header)
    if isinstance(topic, BrokerError):
        return _refuse(call, topic, _NO_POP)
    if header.max_msg_nums < 0:
        raise RequestFailed(f"IllegalArgumentException: Illegal Capacity: {header.max_msg_nums}")
    rest, count, parts = 0, 0, list[memoryview]()
    queues, last_queues = _list_queues(service, call, header, topic)
    for queue in (*queues, *last_queues):
        if queue in last_queues and count >= header.max_msg_nums:
            break
        offset, last = _find_offset(service, header.consumer_group, queue), service.state.bounds(queue)[1]
        rest += last - offset
        if count >= header.max_msg_nums:
            continue
        found = service.record_pulls.pull(queue, offset, header.max_msg_nums - count, EVERYTHING)
        if found.status in (PullStatus.OFFSET_TOO_SMALL, PullStatus.OFFSET_OVERFLOW_BADLY):
            found = service.record_pulls.pull(queue, found.next_offset, header.max_msg_nums - count, EVERYTHING)
        count += found.row_count
        parts += found.body
    fields = replace(_NO_POP, rest_num=rest)
    code = ResponseCode.SUCCESS if parts else ResponseCode.PULL_NOT_FOUND
    return call.respond(fields, b"".join(parts), code=code, remark=_FOUND if parts else _NOT_FOUND)


_Reader = PeekMessageRequestHeader | NotificationRequestHeader | PollingInfoRequestHeader


async def _check_reader(service: RemotingService, call: RemotingCall, header: _Reader) -> TopicConfig | BrokerError:
    asked = _asked_from(call, header.consumer_group, header.topic, header.queue_id)

    def check(draft: Draft) -> TopicConfig | BrokerError:
        try:
            return check_reader(draft, asked)
        except BrokerError as refusal:
            return refusal

    return await service.execute(check)


def _list_queues(
    service: RemotingService,
    call: RemotingCall,
    header: PeekMessageRequestHeader | NotificationRequestHeader,
    topic: TopicConfig,
) -> tuple[list[MessageQueue], list[MessageQueue]]:
    drawn = service.pops.draw(PERCENT)
    return list_peeked_queues(
        service.state, call.site.broker_name, header.consumer_group, topic, header.queue_id, drawn
    )


def _find_offset(service: RemotingService, group: str, queue: MessageQueue) -> int:
    state = service.state
    return state.consumer_offsets.get((group, queue), state.bounds(queue).min_offset)


async def notify(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """NOTIFICATION: whether there are messages. Waits for them until the time that the consumer names."""
    header = call.read_header(NotificationRequestHeader)
    born_ms = _find_born_ms(service, header.born_time)
    topic = await _check_reader(service, call, header)
    if isinstance(topic, BrokerError):
        return _refuse(call, topic, NotificationResponseHeader(has_msg=False))
    group, is_full = header.consumer_group, False
    queues = [queue for part in _list_queues(service, call, header, topic) for queue in part]
    has_messages = _has_messages(service, header, queues)
    wait_ms = born_ms + header.poll_time - ENDS_EARLY_MS - service.clock_ms() if header.poll_time > 0 else 0
    if not has_messages and wait_ms > 0:
        caller = Caller(call.peer.remote_address, call.peer.channel_id, None)
        try:
            with call.peer.ending_with_connection():
                await service.park(queues, EVERYTHING, wait_ms, caller, group=group)
        except TooManyRequests:
            is_full = True
        has_messages = _has_messages(service, header, queues)
    return call.respond(NotificationResponseHeader(has_msg=has_messages, polling_full=is_full), remark=NO_REMARK)


def _has_messages(service: RemotingService, header: NotificationRequestHeader, queues: list[MessageQueue]) -> bool:
    state, group, now_ms = service.state, header.consumer_group, service.clock_ms()

    def is_blocked(queue: MessageQueue) -> bool:
        batch = state.popped.find_in_order(group, queue._replace(topic=header.topic))
        return find_block_end_ms(batch, header.attempt_id or "", now_ms) is not None

    return any(
        state.bounds(queue).max_offset > _find_offset(service, group, queue)
        and not (header.order and is_blocked(queue))
        for queue in queues
    )


async def count_waiting(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """POLLING_INFO: how many waiting pops of a group name this queue id; -1 counts those of all queues."""
    header = call.read_header(PollingInfoRequestHeader)
    topic = await _check_reader(service, call, header)
    if isinstance(topic, BrokerError):
        return _refuse(call, topic, PollingInfoResponseHeader(polling_num=0))
    place = (header.topic, call.site.broker_name, header.consumer_group, header.queue_id)
    count = service.pops.count_waiting(*place)
    return call.respond(PollingInfoResponseHeader(polling_num=count), remark=NO_REMARK)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.POP_MESSAGE: pop_message,
    RequestCode.PEEK_MESSAGE: peek_message,
    RequestCode.NOTIFICATION: notify,
    RequestCode.POLLING_INFO: count_waiting,
}
