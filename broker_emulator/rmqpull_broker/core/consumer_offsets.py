"""Commands on consumer offsets (rocketmq-semantics 3.5)."""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.errors import BadRequest, IllegalOffset
from rmqpull_broker.core.facts import LostRange, OffsetsCommitted, OffsetsReset, ResetsAnswered, RowsLost
from rmqpull_broker.core.groups import ensure_group
from rmqpull_broker.core.model import MessageQueue


def update_offset(draft: Draft, group: str, queue: MessageQueue, offset: int) -> bool:
    """Sets one consumer offset as UPDATE_CONSUMER_OFFSET does (rocketmq-semantics 3.5.1 and 6.1).

    Smaller offsets, -1 (which then reads as not found) and queue ids that the topic lacks are taken as well. False
    while a reset is pending, which wins. Raises ConsumerGroupNotFound, then TopicNotFound.
    """
    draft.group(group)
    draft.topic(queue.topic)
    if draft.pending_reset(group, queue) is not None:
        return False
    draft.add(OffsetsCommitted(group, ((queue, offset),)))
    return True


def commit_offsets(draft: Draft, group: str, offsets: Sequence[tuple[MessageQueue, int]]) -> None:
    """Sets consumer offsets of a group, which is created when missing; all of them or none.

    Raises IllegalConsumerGroup, TopicNotFound, BadRequest for a queue that the topic lacks, IllegalOffset for a
    negative offset.
    """
    ensure_group(draft, group)
    for queue, offset in offsets:
        draft.require_queue(queue)
        if offset < 0:
            raise IllegalOffset(f"offset {offset} of queue {queue} is negative; the smallest is 0")
    if offsets:
        draft.add(OffsetsCommitted(group, tuple(offsets)))


def answer_reset(draft: Draft, group: str, queue: MessageQueue) -> int | None:
    """The offset that a pull is told by a pending reset, which is settled by that; None when none is pending."""
    target = draft.pending_reset(group, queue)
    if target is not None:
        draft.add(ResetsAnswered(group, (queue,)))
    return target


def reset_offsets(draft: Draft, group: str, offsets: Sequence[tuple[MessageQueue, int]]) -> None:
    """Sets a group's offsets from outside (rocketmq-semantics 3.5.3): each lies in [min, max + 1] of its queue.

    Raises ConsumerGroupNotFound, TopicNotFound, BadRequest without queues, IllegalOffset.
    """
    draft.group(group)
    if not offsets:
        raise BadRequest("No queues to reset.")
    for queue, offset in offsets:
        draft.topic(queue.topic)
        first, last = draft.kept_bounds(queue).min_offset, draft.next_offset(queue)
        if not first <= offset <= last + 1:
            raise IllegalOffset(f"Target offset {offset} not in consume queue range [{first}-{last}]")
    if draft.properties.use_server_side_reset_offset:
        draft.add(OffsetsReset(group, tuple(offsets)))
    else:
        draft.add(OffsetsCommitted(group, tuple(offsets)))


def report_lost(draft: Draft, query_id: str, batch_id: int, ranges: Sequence[LostRange]) -> None:
    """Remembers rows that a query could not read. Raises BadRequest, TopicNotFound, IllegalOffset."""
    if not query_id:
        raise BadRequest("a report of lost rows needs a query id")
    for queue, from_offset, until_offset in ranges:
        draft.require_queue(queue)
        if not 0 <= from_offset < until_offset:
            raise IllegalOffset(f"lost range [{from_offset}, {until_offset}) of queue {queue} is empty or negative")
    if ranges:
        draft.add(RowsLost(query_id, batch_id, tuple(ranges)))
