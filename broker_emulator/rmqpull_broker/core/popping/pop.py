"""The pop itself: takes messages from the queues of a topic, and from the topic of the group's retries (rules 3.17).

A group has one consumer offset in each queue, as pull consumers have. Concurrent deliveries move it at once, and what
is not acknowledged is redelivered from the retry topic. Ordered deliveries move it when their first messages are
acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.popping.order import find_block_end_ms, make_ordered_batch
from rmqpull_broker.core.popping.queue_order import PERCENT, list_popped_queues
from rmqpull_broker.core.popping.receipts import ORDER_REVIVE_QUEUE, REVIVE_QUEUES, TopicKind
from rmqpull_broker.core.popping.request import (
    MESSAGES_MAX,
    InitMode,
    PoppedPart,
    PopRequest,
    PopResult,
)
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.consumer_offsets import answer_reset
from rmqpull_broker.core.pulling.message_pull import Pulled, pull_messages
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted, Popped, PoppedInOrder
from rmqpull_broker.core.state.in_flight import IN_FLIGHT_MAX, make_offsets
from rmqpull_broker.core.state.names import name_pop_retry_topic

_OUTSIDE = (PullStatus.OFFSET_TOO_SMALL, PullStatus.OFFSET_OVERFLOW_BADLY, PullStatus.OFFSET_FOUND_NULL)
"""Results of reading at an offset outside the queue, after which the offset is corrected."""


def pop_messages(draft: Draft, request: PopRequest, now_ms: int, draw: Callable[[int], int]) -> PopResult:
    """Delivers up to ``max_msg_nums`` messages, and records that they are in flight.

    ``draw`` returns a random number below its argument. Raises TopicNotFound, and TooManyRequests.
    """
    topic = draft.require_topic(request.topic)
    if len(draft.state.popped) >= IN_FLIGHT_MAX:
        raise TooManyRequests(f"{IN_FLIGHT_MAX} messages are in flight already, the max; acknowledge some first")
    if not request.in_order:  # revival creates the retry topic even above the limits, so there must be room for it
        draft.room.check_topic(name_pop_retry_topic(request.group, request.topic))
    drawn = draw(PERCENT)
    revive_queue_id = ORDER_REVIVE_QUEUE if request.in_order else draw(REVIVE_QUEUES)
    result = PopResult(now_ms, request.invisible_ms, revive_queue_id)
    for kind, queue in list_popped_queues(draft, request, topic, drawn):
        if kind is not TopicKind.NORMAL and result.message_count >= request.max_msg_nums:
            break
        result = _pop_queue(draft, request, kind, queue, result)
    return result


class Outlook(NamedTuple):
    """Whether a pop would read or change anything now; if not, when a blocked ordered queue is free, or None."""

    is_ready: bool
    blocked_until_ms: int | None = None


def look_ahead(state: BrokerState, request: PopRequest, now_ms: int) -> Outlook:
    """Returns what a pop would find now. A filter may still drop all of it."""
    draft = Draft(state)
    topic = draft.find_topic(request.topic)
    if topic is None:
        return Outlook(is_ready=True)  # the pop need not wait, because it will be refused
    blocked_until_ms: int | None = None
    for _, queue in list_popped_queues(draft, request, topic, 1):
        end_ms = _find_block_end_ms(draft, request, queue, now_ms)
        if end_ms is not None:
            blocked_until_ms = min(end_ms, blocked_until_ms or end_ms)
            continue
        offset = state.consumer_offsets.get((request.group, queue), -1)
        is_reset = (request.group, queue) in state.resets
        if offset < 0 or is_reset or offset != state.bounds(queue).max_offset:
            return Outlook(is_ready=True)
    return Outlook(is_ready=False, blocked_until_ms=blocked_until_ms)


def _pop_queue(draft: Draft, request: PopRequest, kind: TopicKind, queue: MessageQueue, result: PopResult) -> PopResult:
    """Adds the messages of one queue to a result."""
    now_ms = result.pop_time_ms
    if _find_block_end_ms(draft, request, queue, now_ms) is not None:
        return result
    start = _find_start(draft, request, kind, queue)
    room = min(request.max_msg_nums, MESSAGES_MAX) - result.message_count
    if room <= 0:
        return replace(result, rest_count=result.rest_count + max(0, draft.state.bounds(queue).max_offset - start))
    pulled = _pull(draft, request, kind, queue, start, room)
    offsets = make_offsets([int(at) for batch in pulled.batches for at in batch.column("queueOffset").to_pylist()])
    part = PoppedPart(queue, kind, start, offsets, pulled)
    if request.in_order:
        part = _keep_in_order(draft, request, part, now_ms)
    else:
        if offsets:
            draft.add(Popped(request.group, queue, offsets, now_ms, request.invisible_ms))
        _commit(draft, request.group, queue, pulled.next_offset)
    rest = result.rest_count + max(0, pulled.bounds.max_offset - pulled.next_offset)
    return replace(result, parts=[*result.parts, part] if offsets else result.parts, rest_count=rest)


def _find_block_end_ms(draft: Draft, request: PopRequest, queue: MessageQueue, now_ms: int) -> int | None:
    """Returns until when a queue is skipped, because its last batch is in flight. A reset unblocks it."""
    if not request.in_order or draft.find_reset(request.group, queue) is not None:
        return None
    return find_block_end_ms(draft.find_in_order(request.group, queue), request.attempt_id, now_ms)


def _keep_in_order(draft: Draft, request: PopRequest, part: PoppedPart, now_ms: int) -> PoppedPart:
    """Records an ordered batch. If there are no messages, the consumer offset skips what the filter dropped."""
    if not part.offsets:
        _commit(draft, request.group, part.queue, part.pulled.next_offset)
        return part
    before = draft.find_in_order(request.group, part.queue)
    batch = make_ordered_batch(request, part, before, now_ms)
    draft.add(batch)
    _commit(draft, request.group, part.queue, part.pulled.offset)
    return replace(part, consumed_times=dict(zip(batch.offsets, batch.consumed_times, strict=True)))


def _pull(draft: Draft, request: PopRequest, kind: TopicKind, queue: MessageQueue, start: int, room: int) -> Pulled:
    """Reads a queue. An offset outside its bounds is corrected, and the queue is read again."""
    message_filter = request.message_filter
    if draft.find_kept_bounds(queue) != draft.state.bounds(queue):  # the topic was deleted by an earlier command
        return Pulled(PullStatus.NO_MESSAGE_IN_QUEUE, start, 0, Bounds(0, 0))
    pulled = pull_messages(draft.state, queue, start, room, message_filter)
    if pulled.status in _OUTSIDE:
        pulled = pull_messages(draft.state, queue, pulled.next_offset, room, message_filter)
    return pulled


def _find_start(draft: Draft, request: PopRequest, kind: TopicKind, queue: MessageQueue) -> int:
    """Returns the offset to read from: that of a pending reset, the group's own, or the start of a new group."""
    reset = answer_reset(draft, request.group, queue)
    if reset is not None:
        if request.in_order:
            draft.add(PoppedInOrder(request.group, queue, (), 0, 0))  # an empty batch clears the ordered state
        return reset
    offset = draft.find_consumer_offset(request.group, queue)
    if offset is not None:
        return offset
    bounds = draft.state.bounds(queue)
    if request.init_mode is InitMode.MIN or kind is not TopicKind.NORMAL or bounds.min_offset <= 0:
        return bounds.min_offset  # queues from offset 0 count as in memory, where a new group starts in both modes
    return max(bounds.min_offset, bounds.max_offset - 1, 0)


def _commit(draft: Draft, group: str, queue: MessageQueue, offset: int) -> None:
    if draft.find_consumer_offset(group, queue) != offset:
        draft.add(OffsetsCommitted(group, ((queue, offset),)))
