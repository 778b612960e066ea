"""Where consumer groups stand (rules 3.5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.state.state import BrokerState


class QueueProgress(NamedTuple):
    """A group's place in a queue; ``consumer_offset`` is None where the group has none."""

    group: str
    queue: MessageQueue
    consumer_offset: int | None
    bounds: Bounds

    @property
    def lag(self) -> int:
        """Messages between the consumer offset and the max offset, gone ones included; without an offset all."""
        start = self.bounds.min_offset if self.consumer_offset is None else self.consumer_offset
        return max(0, self.bounds.max_offset - start)


def group_progress(state: BrokerState, groups: Collection[str], topics: Collection[str]) -> list[QueueProgress]:
    """The progress of these groups on these topics, empty meaning all, by group, topic, broker name and queue id.

    A topic counts for a group when it has an offset on any of its queues; then all that consumers see are told, and
    those beyond that it still has an offset on.
    """
    queues: dict[tuple[str, str], set[MessageQueue]] = {}
    for group, queue in state.consumer_offsets:
        if (not groups or group in groups) and (not topics or queue.topic in topics):
            queues.setdefault((group, queue.topic), set()).add(queue)
    return [
        queue_progress(state, group, queue)
        for group, topic in sorted(queues)
        for queue in sorted(queues[group, topic] | _seen_by_consumers(state, topic))
    ]


def _seen_by_consumers(state: BrokerState, name: str) -> set[MessageQueue]:
    topic = state.find_topic(name)
    return set() if topic is None else set(state.readable_queues(topic))


def queue_progress(state: BrokerState, group: str, queue: MessageQueue) -> QueueProgress:
    """A group's stored offset on one queue, as it is, beside the queue's bounds."""
    offset = state.consumer_offsets.get((group, queue), -1)
    return QueueProgress(group, queue, offset if offset >= 0 else None, state.bounds(queue))


def groups_on(state: BrokerState, topic: str) -> list[str]:
    """The groups that have an offset on a topic, by name."""
    return sorted({group for group, queue in state.consumer_offsets if queue.topic == topic})
