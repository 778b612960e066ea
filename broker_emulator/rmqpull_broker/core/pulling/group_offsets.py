"""A group's offsets on a topic: sent to its members, copied to another group, compared with others (rules 3.5)."""

from __future__ import annotations

from collections.abc import Collection

from rmqpull_broker.core.errors import InternalError, TopicNotFound
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.bounds import find_offset_at_time
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted
from rmqpull_broker.core.steps import Steps

_LONG_MAX = (1 << 63) - 1


def plan_reset_of_members(
    draft: Draft, group: str, topic_name: str, broker_name: str, timestamp_ms: int, *, is_forced: bool
) -> dict[MessageQueue, int]:
    """Returns the offsets to send to online members when ``useServerSideResetOffset`` is off (rules 3.5.3).

    Only -1 means the end. Without ``is_forced`` no offset moves forward. Raises TopicNotFound, and InternalError if the
    group has no offset on a queue.
    """
    topic = draft.find_topic(topic_name)
    if topic is None:
        raise TopicNotFound(f"[reset-offset] reset offset failed, no topic in this broker. topic={topic_name}")
    targets = {}
    for queue in draft.state.list_writable_queues(topic):
        if queue.broker_name != broker_name:
            continue
        offset = draft.state.consumer_offsets.get((group, queue))
        if offset is None:
            raise InternalError(f"THe consumer group <{group}> not exist")
        at_time = draft.find_next_offset(queue)
        if timestamp_ms != -1:
            at_time = find_offset_at_time(draft.state, queue, timestamp_ms)
        targets[queue] = at_time if is_forced else min(at_time, offset)
    return targets


def clone_offsets(draft: Draft, source: str, target: str, topic: str, broker_name: str) -> None:
    """Gives a group the offsets of another one on a topic, like CLONE_GROUP_OFFSET.

    They replace the target's own. If the source has no offsets, nothing changes; the target need not exist.
    """
    cloned, own = (
        {queue: offset for queue, offset in draft.list_consumer_offsets(group) if queue[:2] == (topic, broker_name)}
        for group in (source, target)
    )
    if draft.find_topic(topic) is not None and cloned and source != target:
        dropped = dict.fromkeys(own.keys() - cloned.keys(), -1)
        draft.add(OffsetsCommitted(target, tuple(sorted((cloned | dropped).items()))))


def find_corrections(
    state: BrokerState, topic: str, broker_name: str, compared: str, ignored: Collection[str]
) -> Steps[dict[int, int]]:
    """Returns the smallest offset of all groups on each queue of a topic, like QUERY_CORRECTION_OFFSET.

    Leaves out offsets before the first message, and groups in ``ignored``. Where the ``compared`` group is behind the
    smallest one, the result is the largest number of 64 bits.
    """
    smallest: dict[int, int] = {}
    own: dict[int, int] = {}
    for piece in state.consumer_offsets.walk_topic(topic):
        for (group, queue), offset in piece:
            if queue.broker_name != broker_name or group in ignored:
                continue
            if offset >= state.bounds(queue).min_offset:
                smallest[queue.queue_id] = min(offset, smallest.get(queue.queue_id, offset))
            if group == compared:
                own[queue.queue_id] = offset
        yield
    behind = {queue_id: _LONG_MAX for queue_id, offset in own.items() if smallest.get(queue_id, _LONG_MAX) > offset}
    return smallest | behind
