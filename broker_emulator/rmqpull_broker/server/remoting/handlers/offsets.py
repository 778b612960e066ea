"""Consumer offsets, and the bounds and times of queues (rules 3.5, 3.11)."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping
from typing import Any

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.bounds import BoundaryType, find_offset_at_time, read_store_time_ms
from rmqpull_broker.core.pulling.consumer_offsets import check_offset_update, update_offset
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import (
    GetEarliestMsgStoretimeResponseHeader,
    GetMaxOffsetRequestHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    SearchOffsetRequestHeader,
    TopicQueueRequestHeader,
    UpdateConsumerOffsetRequestHeader,
)

NO_MESSAGE = -1
"""The store time of the first message in a queue without messages."""
_PREVIOUSLY_RESET = "Offset has been previously reset"


def query_consumer_offset(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_CONSUMER_OFFSET. Neither group nor topic need to exist."""
    header = call.read_header(QueryConsumerOffsetRequestHeader)
    queue, broker = _queue_of(call, header), service
    offset = broker.state.find_consumer_offset(
        header.consumer_group,
        queue,
        set_zero_if_not_found=header.set_zero_if_not_found is not False,
        unstored=broker.unstored_offsets.find(header.consumer_group, queue),
    )
    return call.respond(OffsetResponseHeader(offset=offset))


def update_consumer_offset(
    service: RemotingService, call: RemotingCall
) -> Coroutine[Any, Any, RemotingCommand | None] | None:
    """UPDATE_CONSUMER_OFFSET. If it is one-way, as consumers send it, it takes effect at once and is stored later."""
    header = _read_update(service, call)
    queue = _queue_of(call, header)
    if not call.command.is_oneway:
        service.unstored_offsets.begin_update(header.consumer_group, queue, header.commit_offset)
        return _store_consumer_offset(service, call, header, queue)
    if check_offset_update(service.state, header.consumer_group, queue):
        service.unstored_offsets.put(header.consumer_group, queue, header.commit_offset)
    return None


async def _store_consumer_offset(
    service: RemotingService, call: RemotingCall, header: UpdateConsumerOffsetRequestHeader, queue: MessageQueue
) -> RemotingCommand:
    """Stores the offset before it responds."""
    group, offset = header.consumer_group, header.commit_offset
    try:
        is_stored = await service.execute(lambda draft: update_offset(draft, group, queue, offset))
    finally:
        service.unstored_offsets.end_update(group, queue)
    return call.respond(remark=None if is_stored else _PREVIOUSLY_RESET)


def _read_update(service: RemotingService, call: RemotingCall) -> UpdateConsumerOffsetRequestHeader:
    """Reads the request. Raises BadRequest without a queue or an offset, if group and topic exist (rules 3.5.1)."""
    fields = call.command.fields
    for name, words in (("queueId", "QueueId"), ("commitOffset", "Offset")):
        if name not in fields:
            group, topic = fields.get("consumerGroup", ""), fields.get("topic", "")
            check_offset_update(service.state, group, MessageQueue(topic, call.site.broker_name, 0))
            raise BadRequest(f"{words} is null, topic is {topic}")
    return call.read_header(UpdateConsumerOffsetRequestHeader)


def search_offset(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """SEARCH_OFFSET_BY_TIMESTAMP. Any other boundary type than UPPER is LOWER."""
    header = call.read_header(SearchOffsetRequestHeader)
    is_upper = (header.boundary_type or "").upper() == BoundaryType.UPPER.value
    boundary = BoundaryType.UPPER if is_upper else BoundaryType.LOWER
    offset = find_offset_at_time(service.state, _queue_of(call, header), header.timestamp, boundary)
    return call.respond(OffsetResponseHeader(offset=offset))


def get_max_offset(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_MAX_OFFSET: 0 for a queue that does not exist."""
    header = call.read_header(GetMaxOffsetRequestHeader)
    return call.respond(OffsetResponseHeader(offset=service.state.bounds(_queue_of(call, header)).max_offset))


def get_min_offset(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_MIN_OFFSET: 0 for a queue that does not exist."""
    header = call.read_header(TopicQueueRequestHeader)
    first = service.state.bounds(_queue_of(call, header)).min_offset
    # Apache's broker sends an empty remark here, where others have none (rules 6.1).
    return call.respond(OffsetResponseHeader(offset=first), remark="")


def get_earliest_store_time(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_EARLIEST_MSG_STORETIME: when the first message of a queue was stored, in milliseconds since the epoch."""
    queue, state = _queue_of(call, call.read_header(TopicQueueRequestHeader)), service.state
    first, end = state.bounds(queue)
    timestamp = read_store_time_ms(state, queue, first) if first < end else NO_MESSAGE
    return call.respond(GetEarliestMsgStoretimeResponseHeader(timestamp=timestamp))


def _queue_of(call: RemotingCall, header: TopicQueueRequestHeader) -> MessageQueue:
    return MessageQueue(header.topic, call.site.broker_name, header.queue_id)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.QUERY_CONSUMER_OFFSET: query_consumer_offset,
    RequestCode.UPDATE_CONSUMER_OFFSET: update_consumer_offset,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: search_offset,
    RequestCode.GET_MAX_OFFSET: get_max_offset,
    RequestCode.GET_MIN_OFFSET: get_min_offset,
    RequestCode.GET_EARLIEST_MSG_STORETIME: get_earliest_store_time,
}
