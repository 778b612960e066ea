"""Selects the queue of a message: round robin, or by message group (rules 5.11, "Queue").

The rows of a batch that nothing places are cut into slices, one for each queue, so that a batch is stored as it came.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

TURNS_MAX = 100_000
"""Topics whose next queue is kept. Above this limit, the oldest is forgotten and starts with queue 0 again."""
SHARES_MAX = 1_000
"""Topics with large slices whose shares of all queues are kept. Above this limit, the oldest is forgotten."""
_MASK_64 = (1 << 64) - 1


class QueueSelector:
    """Knows the next queue of each topic. After a restart, each topic starts with queue 0 again.

    ``draw`` returns a random number from 0 to below its argument, for producers that leave the queue to the broker.
    """

    def __init__(self, draw: Callable[[int], int] = lambda count: 0) -> None:
        self.draw = draw
        self._turns: dict[str, int] = {}
        self._shares: dict[str, list[int]] = {}

    def take_turn(self, topic: str, queue_count: int, row_count: int) -> int:
        """Returns the queue of the first of ``row_count`` messages. The others go to the following queues in turn.

        The number of queues may have changed since the last turn.
        """
        if topic not in self._turns and len(self._turns) >= TURNS_MAX:
            del self._turns[next(iter(self._turns))]
        first = self._turns.get(topic, 0) % queue_count
        self._turns[topic] = (first + row_count) % queue_count
        return first

    def take_slices(
        self, topic: str, queue_count: int, row_count: int, slice_rows_min: int = 0
    ) -> list[tuple[int, int]]:
        """Cuts ``row_count`` messages into slices: (index of the queue, messages) in the order of the messages.

        No queue gets two of them. Without a minimum, each queue gets as many messages as in turn, one by one, and the
        first slice is for the queue in turn. With a minimum, the messages go to fewer queues so that no slice is
        smaller, unless there are fewer messages. The next ones are then the queues with the fewest messages from such
        slices, so the shares of two queues differ by no more than one slice, and one message of those in turn.
        """
        slice_count = max(1, min(queue_count, row_count // max(slice_rows_min, 1)))
        size, larger_count = divmod(row_count, slice_count)
        sizes = [size + 1] * larger_count + [size] * (slice_count - larger_count)
        if slice_rows_min <= 1 or slice_count == queue_count:
            first = self.take_turn(topic, queue_count, row_count)
            return [((first + step) % queue_count, count) for step, count in enumerate(sizes)]
        shares = self._find_shares(topic, queue_count)
        smallest = heapq.nsmallest(slice_count, range(queue_count), key=shares.__getitem__)
        slices = list(zip(smallest, sizes, strict=True))
        for queue, count in slices:
            shares[queue] += count
        return slices

    def _find_shares(self, topic: str, queue_count: int) -> list[int]:
        """Returns the number of messages that slices have brought to each queue. It starts again with their number."""
        shares = self._shares.get(topic, [])
        if len(shares) != queue_count:
            if topic not in self._shares and len(self._shares) >= SHARES_MAX:
                del self._shares[next(iter(self._shares))]
            shares = self._shares[topic] = [0] * queue_count
        return shares


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
