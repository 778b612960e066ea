"""Consumer offsets: the commands that set them, and the progress of groups (rules 3.5)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.admin.groups import ensure_group
from rmqpull_broker.core.errors import (
    BadRequest,
    ConsumerGroupNotFound,
    IllegalOffset,
    IllegalResetOffset,
    InternalError,
    NothingToReset,
    TooManyRequests,
    TopicNotFound,
)
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling.bounds import find_offset_at_time
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import LostRange, OffsetsCommitted, OffsetsReset, ResetsAnswered, RowsLost
from rmqpull_broker.core.state.names import is_among
from rmqpull_broker.core.steps import Steps, sort_in_steps, walk

NO_OFFSET = -1
"""Used as the offset of a group that has none."""


def update_offset(draft: Draft, group: str, queue: MessageQueue, offset: int) -> bool:
    """Sets one consumer offset like UPDATE_CONSUMER_OFFSET (rules 3.5.1, 6.1).

    Accepts smaller offsets, -1 (which then reads as not found), and queue ids that the topic does not have. Returns
    and raises what :func:`check_offset_update` does. Raises TooManyRequests when no further offset can be kept.
    """
    if not check_offset_update(draft, group, queue):
        return False
    draft.add(OffsetsCommitted(group, ((queue, offset),)))
    return True


def check_offset_update(state: BrokerState | Draft, group: str, queue: MessageQueue) -> bool:
    """Returns whether an offset may be set: not while a reset is pending, which takes precedence.

    Raises ConsumerGroupNotFound, also for the empty name, then TopicNotFound.
    """
    if not group or state.find_group(group) is None:
        raise ConsumerGroupNotFound(f"Group {group} not exist!")
    if state.find_topic(queue.topic) is None:
        raise TopicNotFound(f"Topic {queue.topic} not exist!")
    return state.find_reset(group, queue) is None


class UnstoredOffset(NamedTuple):
    """An offset whose storing no caller waits for, and the stored offset that it replaces; -1 for none."""

    offset: int
    replaces: int


def keep_offsets(draft: Draft, offsets: Mapping[tuple[str, MessageQueue], UnstoredOffset]) -> TooManyRequests | None:
    """Sets offsets of any groups that :func:`check_offset_update` has accepted.

    Skips those that it would no longer accept: the group or the topic was deleted meanwhile, or a reset is pending.
    Also skips those whose stored offset has changed, because a caller that waited for its offset takes precedence.
    Returns the error of the last one for which there is no room.
    """
    by_group: dict[str, list[tuple[MessageQueue, int]]] = {}
    refusal: TooManyRequests | None = None
    for (group, queue), (offset, replaces) in offsets.items():
        exists = draft.find_group(group) is not None and draft.find_topic(queue.topic) is not None
        now = draft.find_consumer_offset(group, queue)
        if exists and (NO_OFFSET if now is None else now) == replaces and draft.find_reset(group, queue) is None:
            try:
                draft.room.take_offsets(group, [queue])
            except TooManyRequests as error:
                refusal = error
            else:
                by_group.setdefault(group, []).append((queue, offset))
    for group, of_group in by_group.items():
        draft.add(OffsetsCommitted(group, tuple(of_group)))
    return refusal


def set_offsets(draft: Draft, group: str, offsets: Sequence[tuple[MessageQueue, int]]) -> bool:
    """Sets consumer offsets of a group, which is created when missing; all of them or none.

    Queues with a pending reset, which takes precedence, are left out; then it returns False. Raises
    IllegalConsumerGroup, TopicNotFound, BadRequest for a queue that the topic does not have, IllegalOffset for a
    negative offset.
    """
    ensure_group(draft, group)
    for queue, offset in offsets:
        draft.require_queue(queue)
        if offset < 0:
            raise IllegalOffset(f"offset {offset} of queue {queue} is negative; the smallest is 0")
    taken = tuple((queue, offset) for queue, offset in offsets if draft.find_reset(group, queue) is None)
    if taken:
        draft.add(OffsetsCommitted(group, taken))
    return len(taken) == len(offsets)


def answer_reset(draft: Draft, group: str, queue: MessageQueue) -> int | None:
    """Returns the offset of a pending reset, which ends with this pull; None when no reset is pending."""
    target = draft.find_reset(group, queue)
    if target is not None:
        draft.add(ResetsAnswered(group, (queue,)))
    return target


@dataclass(frozen=True)
class ResetRequest:
    """INVOKE_BROKER_TO_RESET_OFFSET: a reset of a group on a topic (rules 3.5.3, 6.1).

    Resets ``queue``, or every queue that consumers see when it is None, those of ``broker_name`` if it is given;
    ``offset`` is ignored then. Without an offset, or with -1, the target is the first message stored at
    ``timestamp_ms`` or later, or the end for a negative time.
    """

    group: str
    topic: str
    queue: MessageQueue | None = None
    offset: int | None = None
    timestamp_ms: int = -1
    broker_name: str | None = None


def invoke_reset(draft: Draft, request: ResetRequest, *, has_consumers: bool = True) -> list[tuple[MessageQueue, int]]:
    """Resets a group on all queues or none, and returns the new offsets. The queue id is not checked.

    Raises TopicNotFound, then ConsumerGroupNotFound, and what :func:`reset_offsets` raises.
    """
    topic = draft.find_topic(request.topic)
    if topic is None:
        raise TopicNotFound(f"Topic {request.topic} does not exist")
    if not request.group or draft.find_group(request.group) is None:  # without a name, a group can only pull
        raise ConsumerGroupNotFound(f"Group {request.group} does not exist")
    if request.queue is not None:
        queues = [request.queue]
    else:
        queues = [q for q in draft.state.list_readable_queues(topic) if request.broker_name in (None, q.broker_name)]
    offset = None if request.queue is None or request.offset == -1 else request.offset
    targets = [
        (queue, _find_target(draft, queue, request.timestamp_ms) if offset is None else offset) for queue in queues
    ]
    reset_offsets(draft, request.group, targets, has_consumers=has_consumers)
    return targets


def _find_target(draft: Draft, queue: MessageQueue, timestamp_ms: int) -> int:
    return draft.find_next_offset(queue) if timestamp_ms < 0 else find_offset_at_time(draft.state, queue, timestamp_ms)


def reset_offsets(
    draft: Draft, group: str, offsets: Sequence[tuple[MessageQueue, int]], *, has_consumers: bool = True
) -> None:
    """Resets a group (rules 3.5.3). Each offset must be in [min, max + 1] of its queue.

    Without ``useServerSideResetOffset``, pulls get no OFFSET_RESET, and ``has_consumers`` must be true: a consumer of
    the group is online. The consumer offsets are set even so, because gRPC clients have no command to set them.

    Raises ConsumerGroupNotFound, TopicNotFound, NothingToReset without queues, IllegalResetOffset, InternalError.
    """
    draft.require_group(group)
    if not offsets:
        raise NothingToReset("No queues to reset.")
    for queue, offset in offsets:
        draft.require_topic(queue.topic)
        first, last = draft.find_kept_bounds(queue).min_offset, draft.find_next_offset(queue)
        if not first <= offset <= last + 1:
            raise IllegalResetOffset(f"Target offset {offset} not in consume queue range [{first}-{last}]")
    if draft.properties.use_server_side_reset_offset:
        draft.add(OffsetsReset(group, tuple(offsets)))
    elif not has_consumers:
        raise InternalError(f"THe consumer group {group} not exist")
    else:
        draft.add(OffsetsCommitted(group, tuple(offsets)))


def report_lost(draft: Draft, query_id: str, batch_id: int, ranges: Sequence[LostRange]) -> None:
    """Records rows that a query could not read. Raises BadRequest, TopicNotFound, IllegalOffset."""
    if not query_id:
        raise BadRequest("a report of lost rows needs a query id")
    for queue, from_offset, until_offset in ranges:
        draft.require_queue(queue)
        if not 0 <= from_offset < until_offset:
            raise IllegalOffset(f"lost range [{from_offset}, {until_offset}) of queue {queue} is empty or negative")
    if ranges:
        draft.add(RowsLost(query_id, batch_id, tuple(ranges)))


class QueueProgress(NamedTuple):
    """A group's progress in a queue. ``consumer_offset`` is None where the group has none.

    ``in_flight`` counts the messages that the group has received and not acknowledged yet.
    """

    group: str
    queue: MessageQueue
    consumer_offset: int | None
    bounds: Bounds
    in_flight: int = 0

    @property
    def lag(self) -> int:
        """The messages between consumer offset and max offset, deleted ones included; all messages without an
        offset."""
        start = self.bounds.min_offset if self.consumer_offset is None else self.consumer_offset
        return max(0, self.bounds.max_offset - start)


def read_group_progress(
    state: BrokerState, groups: Collection[str], topics: Collection[str]
) -> Iterator[QueueProgress | None]:
    """Yields the progress of groups on topics, sorted by group, topic, broker name and queue id; None for a step
    without a result.

    Empty collections stand for all groups and all topics. A topic includes its pop retry topics. It is included when
    the group has an offset on one of its queues: then with all queues that consumers see, and all others on which the
    group has an offset.
    """
    offsets, found = state.consumer_offsets, list[tuple[str, str]]()
    for piece in walk(groups or offsets.list_groups()):
        for group in piece:
            found += ((group, topic) for topic in offsets.list_topics_of(group) if is_among(topic, group, topics))
            yield None
    for group, topic in (yield from sort_in_steps(found)):
        own = {queue for queue, _ in offsets.list_entries(group, topic)}
        for queue in sorted(own | _list_readable(state, topic)):
            yield read_queue_progress(state, group, queue)


def _list_readable(state: BrokerState, name: str) -> set[MessageQueue]:
    topic = state.find_topic(name)
    return set() if topic is None else set(state.list_readable_queues(topic))


def read_queue_progress(state: BrokerState, group: str, queue: MessageQueue) -> QueueProgress:
    """Returns a group's consumer offset on one queue, the queue's bounds, and what is in flight."""
    offset = state.consumer_offsets.get((group, queue), -1)
    in_flight = state.popped.count(group, queue)
    return QueueProgress(group, queue, offset if offset >= 0 else None, state.bounds(queue), in_flight)


def list_groups_on(state: BrokerState, topic: str) -> Steps[list[str]]:
    """Returns the names of the groups that have an offset on a topic, sorted."""
    return (yield from sort_in_steps(state.consumer_offsets.list_groups_on(topic)))


def list_topics_of(state: BrokerState, group: str) -> Steps[list[str]]:
    """Returns the names of the topics on which a group has offsets, sorted."""
    return (yield from sort_in_steps(state.consumer_offsets.list_topics_of(group)))
