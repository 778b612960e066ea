"""A table of values for each queue of each group, such as consumer offsets.

The entries of a group or a topic are found, and dropped, without visiting the others: there may be a million.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TypeVar, overload

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.steps import STEP_ENTRIES

V = TypeVar("V")
D = TypeVar("D")

GroupQueue = tuple[str, MessageQueue]

_NOTHING: Mapping[str, dict[MessageQueue, object]] = {}


class QueueTable(MutableMapping[GroupQueue, V]):
    """A table with the keys (group, queue), grouped by group and topic."""

    __slots__ = ("_by_group", "_count", "_counts", "_groups_on")

    def __init__(self, entries: Iterable[tuple[GroupQueue, V]] = ()) -> None:
        self._by_group: dict[str, dict[str, dict[MessageQueue, V]]] = {}
        self._groups_on: dict[str, dict[str, None]] = {}
        self._counts = Counter[str]()
        self._count = 0
        for key, value in entries:
            self[key] = value

    # --- the mapping -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[GroupQueue]:
        for group, by_topic in self._by_group.items():
            for of_topic in by_topic.values():
                for queue in of_topic:
                    yield group, queue

    def __getitem__(self, key: GroupQueue) -> V:
        group, queue = key
        return self._by_group[group][queue.topic][queue]

    @overload
    def get(self, key: GroupQueue, /) -> V | None: ...
    @overload
    def get(self, key: GroupQueue, default: V | D, /) -> V | D: ...
    def get(self, key: GroupQueue, default: object = None, /) -> object:
        """Returns the entry of a group and a queue, or ``default``."""
        group, queue = key
        return self._by_group.get(group, _NOTHING).get(queue.topic, _NOTHING).get(queue, default)  # type: ignore[call-overload]

    def __setitem__(self, key: GroupQueue, value: V) -> None:
        group, queue = key
        of_topic = self._by_group.setdefault(group, {}).setdefault(queue.topic, {})
        if not of_topic:
            self._groups_on.setdefault(queue.topic, {})[group] = None
        if queue not in of_topic:
            self._add(group, 1)
        of_topic[queue] = value

    def __delitem__(self, key: GroupQueue) -> None:
        group, queue = key
        of_topic = self._by_group[group][queue.topic]
        del of_topic[queue]
        self._add(group, -1)
        if not of_topic:
            self._drop(group, queue.topic)

    def clear(self) -> None:
        """Drops all entries."""
        self._by_group.clear()
        self._groups_on.clear()
        self._counts.clear()
        self._count = 0

    def copy(self) -> QueueTable[V]:
        """Returns a table with the same entries."""
        return QueueTable(self.items())

    def __repr__(self) -> str:
        return f"QueueTable({dict(self)})"

    # --- groups and topics -------------------------------------------------------------------------------------------

    def list_groups(self) -> list[str]:
        """Returns the groups that have an entry."""
        return list(self._by_group)

    def count_of_group(self, group: str) -> int:
        """Returns the number of entries of a group."""
        return self._counts[group]

    def list_topics_of(self, group: str) -> list[str]:
        """Returns the topics on which a group has an entry."""
        return list(self._by_group.get(group, ()))

    def list_groups_on(self, topic: str) -> list[str]:
        """Returns the groups that have an entry on a topic."""
        return list(self._groups_on.get(topic, ()))

    def list_entries(self, group: str, topic: str) -> list[tuple[MessageQueue, V]]:
        """Returns the entries of a group on a topic."""
        return list(self._by_group.get(group, {}).get(topic, {}).items())

    def list_keys_of_group(self, group: str) -> list[GroupQueue]:
        """Returns the keys of a group."""
        return [(group, queue) for of_topic in self._by_group.get(group, {}).values() for queue in of_topic]

    def list_keys_of_topic(self, topic: str) -> list[GroupQueue]:
        """Returns the keys of a topic's queues."""
        return [(group, queue) for group in self._groups_on.get(topic, ()) for queue in self._by_group[group][topic]]

    def drop_group(self, group: str) -> None:
        """Drops the entries of a group."""
        for topic in self.list_topics_of(group):
            self._drop(group, topic)

    def drop_topic(self, topic: str) -> None:
        """Drops the entries of all groups on a topic."""
        for group in self.list_groups_on(topic):
            self._drop(group, topic)

    def _drop(self, group: str, topic: str) -> None:
        self._add(group, -len(self._by_group[group].pop(topic)))
        if not self._by_group[group]:
            del self._by_group[group]
            del self._counts[group]
        del self._groups_on[topic][group]
        if not self._groups_on[topic]:
            del self._groups_on[topic]

    def _add(self, group: str, count: int) -> None:
        self._counts[group] += count
        self._count += count

    # --- in steps ----------------------------------------------------------------------------------------------------

    def walk(self) -> Iterator[list[tuple[GroupQueue, V]]]:
        """Yields all entries in pieces of one step. Those of a group and topic are read when their step comes."""
        return _cut(self._list_pairs())

    def walk_topic(self, topic: str) -> Iterator[list[tuple[GroupQueue, V]]]:
        """Yields the entries on a topic in the same way."""
        return _cut((group, self.list_entries(group, topic)) for group in self.list_groups_on(topic))

    def _list_pairs(self) -> Iterator[tuple[str, list[tuple[MessageQueue, V]]]]:
        for group in self.list_groups():
            for topic in self.list_topics_of(group):
                yield group, self.list_entries(group, topic)


def _cut(pairs: Iterable[tuple[str, list[tuple[MessageQueue, V]]]]) -> Iterator[list[tuple[GroupQueue, V]]]:
    piece: list[tuple[GroupQueue, V]] = []
    for group, entries in pairs:
        for queue, value in entries:
            piece.append(((group, queue), value))
            if len(piece) == STEP_ENTRIES:
                yield piece
                piece = []
    if piece:
        yield piece
