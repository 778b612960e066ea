"""Physical offsets: the numbers by which clients of remoting identify the messages of one broker (rules 4.7, 4.9).

In Apache's broker, it is a position in the commit log. Here it is made of the topic, the queue and the queue offset, so
that it is known before the message is stored, and needs no index::

    63   62        41 40       31 30                  0
    +---+------------+-----------+---------------------+
    | 0 | topic      | queue id  | queue offset        |
    +---+------------+-----------+---------------------+

The number of a topic comes from its name and creation id. So it stays the same after a restart, and a topic that is
deleted and created again has another one. If two topics would have the same number, the one that was created later has
the next.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable

from rmqpull_broker.core.model import MessageQueue, TopicConfig

TOPIC_BITS, QUEUE_BITS, OFFSET_BITS = 22, 10, 31
_TOPICS = 1 << TOPIC_BITS
_QUEUE_MASK, _OFFSET_MASK = (1 << QUEUE_BITS) - 1, (1 << OFFSET_BITS) - 1


class PhysicalOffsets:
    """The numbers of the topics that ``list_topics`` returns. ``find_topic`` returns a topic by its name, or None."""

    def __init__(
        self, find_topic: Callable[[str], TopicConfig | None], list_topics: Callable[[], Iterable[TopicConfig]]
    ) -> None:
        self._find_topic = find_topic
        self._list_topics = list_topics
        self._numbers: dict[tuple[str, str], int] = {}
        self._topics: dict[int, tuple[str, str]] = {}

    def find(self, queue: MessageQueue, queue_offset: int) -> int:
        """Returns the physical offset of a message on its broker."""
        topic = self._find_topic(queue.topic)
        number = self._take_number(queue.topic, "" if topic is None else topic.creation_id)
        return (
            number << (QUEUE_BITS + OFFSET_BITS)
            | (queue.queue_id & _QUEUE_MASK) << OFFSET_BITS
            | queue_offset & _OFFSET_MASK
        )

    def locate(self, broker_name: str, physical_offset: int) -> tuple[MessageQueue, int] | None:
        """Returns the queue and the queue offset that a physical offset names; None if its topic does not exist.

        The queue and the message need not exist.
        """
        number = physical_offset >> (QUEUE_BITS + OFFSET_BITS)
        if number not in self._topics:
            self._number_all()
        name, creation_id = self._topics.get(number, ("", ""))
        topic_now = self._find_topic(name)
        if topic_now is None or topic_now.creation_id != creation_id:
            return None
        queue_id = physical_offset >> OFFSET_BITS & _QUEUE_MASK
        return MessageQueue(name, broker_name, queue_id), physical_offset & _OFFSET_MASK

    def _number_all(self) -> None:
        """Numbers all topics in the order of their creation, which a restart preserves."""
        for topic in self._list_topics():
            self._number(topic.name, topic.creation_id)

    def _take_number(self, name: str, creation_id: str) -> int:
        number = self._numbers.get((name, creation_id))
        if number is None:
            self._number_all()
            number = self._number(name, creation_id)
        return number

    def _number(self, name: str, creation_id: str) -> int:
        key = name, creation_id
        number = self._numbers.get(key)
        if number is None:
            number = zlib.crc32(f"{name} {creation_id}".encode()) % _TOPICS
            while number in self._topics:
                number = (number + 1) % _TOPICS
            self._numbers[key], self._topics[number] = number, key
        return number
