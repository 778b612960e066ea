"""Selects the queue of a message: round robin, or by message group (rules 5.11, "Queue")."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

TURNS_MAX = 100_000
"""Topics whose next queue is kept. Above this limit, the oldest is forgotten and starts with queue 0 again."""
_MASK_64 = (1 << 64) - 1


class QueueSelector:
    """Knows the next queue of each topic. After a restart, each topic starts with queue 0 again.

    ``draw`` returns a random number from 0 to below its argument, for producers that leave the queue to the broker.
    """

    def __init__(self, draw: Callable[[int], int] = lambda count: 0) -> None:
        self.draw = draw
        self._turns: dict[str, int] = {}

    def take_turn(self, topic: str, queue_count: int, row_count: int) -> int:
        """Returns the queue of the first of ``row_count`` messages. The others go to the following queues in turn.

        The number of queues may have changed since the last turn.
        """
        if topic not in self._turns and len(self._turns) >= TURNS_MAX:
            del self._turns[next(iter(self._turns))]
        first = self._turns.get(topic, 0) % queue_count
        self._turns[topic] = (first + row_count) % queue_count
        return first


def select_by_message_group(groups: pa.Array, queue_count: int) -> pa.Array:
    """Returns the queue id of each row by its message group, computed once for each distinct group."""
    encoded = groups.dictionary_encode()
    queue_ids = [select_queue_of_group(group, queue_count) for group in encoded.dictionary.to_pylist()]
    return pc.take(pa.array(queue_ids, pa.int32()), encoded.indices)


def select_queue_of_group(group: str, queue_count: int) -> int:
    """Returns the queue id of a message group."""
    return consistent_hash(hash_like_java(group), queue_count)


def hash_like_java(text: str) -> int:
    """Returns ``String.hashCode()``: a signed 32-bit sum over UTF-16 units."""
    encoded = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for high, low in zip(encoded[::2], encoded[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def consistent_hash(value: int, buckets: int) -> int:
    """Returns the bucket of ``value`` by jump consistent hashing, like Guava's ``Hashing.consistentHash``.

    Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm"; the constants of the generator are Guava's.
    """
    state = value & _MASK_64
    candidate = 0
    while True:
        state = (2862933555777941757 * state + 1) & _MASK_64
        draw = (state >> 33) + 1
        # Guava keeps the draw in an int, in which the largest draw overflows, so that the search ends.
        following = buckets if draw == 1 << 31 else int((candidate + 1) / (draw / 2.0**31))
        if following >= buckets:
            return candidate
        candidate = following
