"""Chooses the queue of each message: the named one, that of its message group or its keys, or any.

A message group goes to the queue that the gRPC proxy of the same cluster would choose, so producers over both protocols
keep one order (rules 5.11, "Queue"). The proxy sorts the writable queues by broker name and queue id.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.model import MessageQueue

Numbers: TypeAlias = npt.NDArray[np.int64]

ANY_QUEUE = -1
"""The index of the queue of a message that may go to any queue."""
TOPICS_MAX = 10_000
"""Topics whose turns are kept. Above it, the oldest is forgotten and starts anew."""

_MASK_32 = 0xFFFFFFFF
_SIGN_32 = 1 << 31
_MULTIPLIER = np.uint64(2862933555777941757)  # of Guava's generator


class ChosenQueues(NamedTuple):
    """The index of each row's queue among the writable queues of its topic, or ``ANY_QUEUE``.

    ``reasons`` says by row why a named queue cannot be used.
    """

    indexes: Numbers
    reasons: dict[int, str]


def choose_queues(rows: pa.RecordBatch, queues: Sequence[MessageQueue], by_keys: bool) -> ChosenQueues:
    """Chooses queues for rows of one topic.

    Args:
        rows: Columns of ``rmqpull_client.PUBLISH_SCHEMA``.
        queues: The writable queues of the topic, sorted; at least one.
        by_keys: Whether rows with equal keys go to the same queue.
    """
    indexes = np.full(rows.num_rows, ANY_QUEUE, np.int64)
    if by_keys and "keys" in rows.schema.names:
        _place(indexes, pc.binary_join(rows.column("keys"), " "), len(queues))
    if "messageGroup" in rows.schema.names:
        _place(indexes, rows.column("messageGroup"), len(queues))
    return ChosenQueues(indexes, _place_named(indexes, rows, queues))


def _place(indexes: Numbers, texts: pa.Array, queue_count: int) -> None:
    """Sets the queue of each row whose text is not empty, by a hash of the text."""
    given = pc.fill_null(pc.greater(pc.binary_length(texts), 0), False)
    where = np.flatnonzero(given.to_numpy(zero_copy_only=False))
    if len(where):
        indexes[where] = hash_consistently(hash_like_java(texts.take(pa.array(where))), queue_count)


def _place_named(indexes: Numbers, rows: pa.RecordBatch, queues: Sequence[MessageQueue]) -> dict[int, str]:
    """Sets the queue of each row that names one. Returns the reasons why others cannot have the queue they name."""
    columns = [
        rows.column(name) if name in rows.schema.names else pa.nulls(rows.num_rows, kind)
        for name, kind in (("brokerName", pa.string()), ("queueId", pa.int32()))
    ]
    is_named = pc.or_(*(column.is_valid() for column in columns))
    where = np.flatnonzero(is_named.to_numpy(zero_copy_only=False))
    if not len(where):
        return {}
    places = {(queue.broker_name, queue.queue_id): index for index, queue in enumerate(queues)}
    reasons = {}
    names, numbers = (column.take(pa.array(where)).to_pylist() for column in columns)
    for row, name, number in zip(where.tolist(), names, numbers, strict=True):
        index = places.get((name, number))
        if index is None:
            reasons[row] = _explain(name, number, queues)
        else:
            indexes[row] = index
    return reasons


def _explain(name: str | None, number: int | None, queues: Sequence[MessageQueue]) -> str:
    if name is None or number is None:
        return "it names its queue by only one of brokerName and queueId, which belong together"
    brokers = sorted({queue.broker_name for queue in queues})
    own = [queue.queue_id for queue in queues if queue.broker_name == name]
    writable = f"{name} has the queues {own[0]} to {own[-1]}" if own else f"its brokers are {', '.join(brokers)}"
    return (
        f"it names queue {number} of broker {name}, but topic {queues[0].topic} has no such writable queue: {writable}"
    )


def hash_like_java(texts: pa.Array) -> Numbers:
    """Returns ``String.hashCode()`` of each text: a signed 32-bit sum over UTF-16 units. No text is null."""
    binary = texts.cast(pa.binary())
    _, bounds, values = binary.buffers()
    offsets = np.frombuffer(bounds, np.int32)[binary.offset : binary.offset + len(binary) + 1].astype(np.int64)
    if values is None or offsets[0] == offsets[-1]:
        return np.zeros(len(binary), np.int64)
    data = np.frombuffer(values, np.uint8)[offsets[0] : offsets[-1]]
    offsets -= offsets[0]
    hashes = _hash_bytes(data, offsets)
    if np.any(data >= 128):  # for texts beyond ASCII, bytes are not UTF-16 units
        many = np.concatenate(([0], np.cumsum(data >= 128)))[offsets]
        for row in np.flatnonzero(np.diff(many)).tolist():
            hashes[row] = _hash_units(texts[row].as_py())
    return np.where(hashes >= _SIGN_32, hashes - (1 << 32), hashes)


def _hash_bytes(data: npt.NDArray[np.uint8], offsets: Numbers) -> Numbers:
    """The sum of each text's bytes, weighted by the power of 31 of their distance from its end."""
    lengths = np.diff(offsets)
    powers = np.cumprod(np.full(int(lengths.max()), 31, np.uint32), dtype=np.uint32)
    powers = np.concatenate((np.ones(1, np.uint32), powers))
    distances = np.repeat(offsets[1:] - 1, lengths) - np.arange(len(data))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(data * powers[distances], dtype=np.uint64)))
    hashes: Numbers = (np.diff(sums[offsets]) & np.uint64(_MASK_32)).astype(np.int64)
    return hashes


def _hash_units(text: str) -> int:
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & _MASK_32
    return value


def hash_consistently(values: Numbers, bucket_count: int) -> Numbers:
    """Returns the bucket of each value by jump consistent hashing, with the numbers of Guava's ``consistentHash``.

    The algorithm is by Lamping and Veach. It ends after about ``ln(bucket_count)`` jumps.
    """
    buckets = np.zeros(len(values), np.int64)
    active, states = np.arange(len(values)), values.astype(np.uint64)
    while len(active):
        states = states * _MULTIPLIER + np.uint64(1)
        draws = (states >> np.uint64(33)).astype(np.float64) + 1.0
        jumps = ((buckets[active] + 1) / (draws / 2.0**31)).astype(np.int64)
        # Guava keeps the draw in an int: the largest one overflows there, and the search ends.
        goes_on = (jumps < bucket_count) & (draws < 2.0**31)
        active, states = active[goes_on], states[goes_on]
        buckets[active] = jumps[goes_on]
    return buckets


class Turns:
    """Takes the queues of each topic in turn, for messages that may go to any of them.

    ``draw`` returns a random number from 0 to below its argument, so that producers that start together begin with
    different queues.
    """

    def __init__(self, draw: Callable[[int], int]) -> None:
        self._draw = draw
        self._turns: dict[str, int] = {}

    def take(self, topic: str, is_usable: Sequence[bool]) -> int:
        """Returns the index of the next usable queue, or of the next one if none is usable."""
        if topic not in self._turns:
            if len(self._turns) >= TOPICS_MAX:
                del self._turns[next(iter(self._turns))]
            self._turns[topic] = self._draw(len(is_usable))
        count = len(is_usable)
        first = self._turns[topic] % count
        in_turn = [(first + step) % count for step in range(count)]
        index = next((index for index in in_turn if is_usable[index]), first)
        self._turns[topic] = index + 1
        return index
