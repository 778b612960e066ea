"""Room: how many topics, consumer groups and consumer offsets there may be. Apache's broker has no such limits.

A broker creates most of them by itself, for anybody's sends, pulls and heartbeats. So each draft counts what its
commands create. Deletions make room once they are stored.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Sized
from typing import Protocol

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import Fact, GroupPut, OffsetsCommitted, OffsetsReset, TopicPut
from rmqpull_proto.names import DLQ_PREFIX, RETRY_PREFIX

TOPICS_MAX = 60_000
"""Topics. Above this limit, only topics of retries and dead letters are created."""
TOPICS_OF_ALL_MAX = 2 * TOPICS_MAX
"""Topics, including those of retries and dead letters."""
GROUPS_MAX = 60_000
OFFSETS_MAX = 1_000_000
"""Consumer offsets of all groups; also the limit of pending resets."""
OFFSETS_OF_GROUP_MAX = OFFSETS_MAX // 10
"""Consumer offsets of one group: they are copied in one step, which must not take long."""
OFFSETS_OF_ANY_QUEUE_MAX = OFFSETS_MAX // 10
"""Consumer offsets. Above this limit, none is created on a queue that its topic does not have."""


class _Kept(Sized, Container[Hashable], Protocol):
    """The entries of one kind in the state."""


class Room:
    """Counts what the commands of a draft create."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        # By kind; and what the current command has created, which may still be refused.
        self._created: dict[str, set[Hashable]] = {}
        self._of_command: list[tuple[str, Hashable]] = []

    def take(self, fact: Fact) -> None:
        """Counts what a fact of the current command creates. Raises TooManyRequests when there is no room for it."""
        match fact:
            case TopicPut(topic):
                self.check_topic(topic.name)
                self._take("topics", self._state.topics, topic.name)
            case GroupPut(group):
                if not self._has_room("groups", self._state.groups, group.name, GROUPS_MAX):
                    raise TooManyRequests(
                        f"group {group.name} is not created: {GROUPS_MAX} groups exist, the max; delete some first"
                    )
                self._take("groups", self._state.groups, group.name)
            case OffsetsCommitted(group_name, offsets):
                self.take_offsets(group_name, (queue for queue, offset in offsets if offset >= 0))
            case OffsetsReset(group_name, offsets):
                self.take_offsets(group_name, (queue for queue, _ in offsets))
                self._take_resets(group_name, (queue for queue, _ in offsets))

    def check_topic(self, name: str) -> None:
        """Raises TooManyRequests if there is no room for a topic of this name, and it does not exist."""
        most = TOPICS_OF_ALL_MAX if name.startswith((RETRY_PREFIX, DLQ_PREFIX)) else TOPICS_MAX
        if not self._has_room("topics", self._state.topics, name, most):
            raise TooManyRequests(f"topic {name} is not created: {most} topics exist, the max; delete some first")

    def take_offsets(self, group: str, queues: Iterable[MessageQueue]) -> None:
        """Counts offsets that a group gets on queues. Raises TooManyRequests when there is no room for one of them."""
        for queue in queues:
            kept, key = self._state.consumer_offsets, (group, queue)
            if key in kept or key in self._created.get("offsets", ()):
                continue
            has_queue = self._has_queue(queue)
            most = OFFSETS_MAX if has_queue else OFFSETS_OF_ANY_QUEUE_MAX
            if not self._has_room("offsets", kept, key, most):
                raise TooManyRequests(
                    f"group {group} gets no offset on queue {queue}: {most} consumer offsets are kept, the max"
                    f"{'' if has_queue else ' for a queue that its topic does not have'}; delete groups or topics first"
                )
            of_group = f"offsets of {group}"
            if kept.count_of_group(group) + len(self._created.get(of_group, ())) >= OFFSETS_OF_GROUP_MAX:
                raise TooManyRequests(
                    f"group {group} gets no offset on queue {queue}: it has {OFFSETS_OF_GROUP_MAX}, the max of a group"
                )
            self._take("offsets", kept, key)
            self._take(of_group, kept, key)

    def _has_queue(self, queue: MessageQueue) -> bool:
        """Whether a queue exists. Queues of a topic that is not stored yet count: this draft creates it."""
        topic = self._state.find_topic(queue.topic)
        return topic is None or self._state.is_readable(topic, queue)

    def _take_resets(self, group: str, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            if not self._has_room("resets", self._state.resets, (group, queue), OFFSETS_MAX):
                raise TooManyRequests(
                    f"group {group} is not reset on queue {queue}: {OFFSETS_MAX} resets wait for a pull, the max; pull "
                    "with the groups that were reset"
                )
            self._take("resets", self._state.resets, (group, queue))

    def _has_room(self, kind: str, kept: _Kept, key: Hashable, most: int) -> bool:
        created = self._created.get(kind, ())
        return len(kept) + len(created) < most or key in kept or key in created

    def _take(self, kind: str, kept: _Kept, key: Hashable) -> None:
        created = self._created.setdefault(kind, set())
        if key not in kept and key not in created:
            created.add(key)
            self._of_command.append((kind, key))

    def end_command(self) -> None:
        """Keeps what the current command has created."""
        self._of_command.clear()

    def drop_command(self) -> None:
        """Forgets what the current command has created, because it was refused."""
        for kind, key in self._of_command:
            self._created[kind].discard(key)
        self._of_command.clear()
