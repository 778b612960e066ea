"""The texts that tell what a pop got, by queue (``ExtraInfoUtil``; rules 3.17.1).

Entries have ";" between them, and three parts with blanks between them: the kind of topic, the queue, and a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.header_fields import parse_long


class QueuePopped(NamedTuple):
    """What a pop got from one queue.

    ``topic_kind`` is 0 for the topic itself, 1 and 2 for the topics of retries. ``consumed_times`` has the messages
    that were delivered in order before, by offset; None unless the pop was in order.
    """

    topic_kind: int
    queue_id: int
    start_offset: int
    offsets: Sequence[int]
    consumed_times: Mapping[int, int] | None = None


def write_start_offsets(queues: Iterable[QueuePopped]) -> str:
    """Writes ``startOffsetInfo``: from where each queue was read."""
    return ";".join(f"{queue.topic_kind} {queue.queue_id} {queue.start_offset}" for queue in queues)


def write_message_offsets(queues: Iterable[QueuePopped]) -> str:
    """Writes ``msgOffsetInfo``: the offsets of the messages, in the order of the body."""
    return ";".join(f"{queue.topic_kind} {queue.queue_id} {','.join(map(str, queue.offsets))}" for queue in queues)


def write_consumed_times(queues: Iterable[QueuePopped]) -> str:
    """Writes ``orderCountInfo``: how often messages were delivered in order before.

    An entry for the whole queue follows those of its messages: the least number of all its messages.
    """
    entries = []
    for kind, queue_id, _, offsets, times in queues:
        known = {offset: count for offset, count in (times or {}).items() if count}
        entries += [f"{kind} qo{queue_id}%{offset} {known[offset]}" for offset in _order_as_java(known)]
        least = min(known.values()) if known and len(known) == len(offsets) else 0
        entries.append(f"{kind} {queue_id} {least}")
    return ";".join(entries)


def _order_as_java(offsets: Iterable[int]) -> list[int]:
    """Returns offsets in the order in which Java's ``HashMap`` has them as keys."""
    known = list(offsets)
    buckets = 16
    while len(known) > buckets * 3 // 4:
        buckets *= 2
    return sorted(known, key=lambda offset: _hash(offset) % buckets)


def _hash(number: int) -> int:
    value = (number ^ number >> 32) & 0xFFFFFFFF
    return value ^ value >> 16


class ExtraInfo(NamedTuple):
    """The receipt of a delivery as a consumer sends it back. Times are in milliseconds."""

    start_offset: int
    pop_time_ms: int
    invisible_ms: int
    revive_queue_id: int
    broker_name: str


def parse_extra_info(text: str) -> ExtraInfo:
    """Reads a receipt. Only its first six parts count, and the kind of topic among them does not. Raises WireError."""
    parts = text.rstrip(" ").split(" ")  # Java drops empty parts at the end
    try:
        start, pop_time_ms, invisible_ms, revive_queue_id = map(parse_long, parts[:4])
        return ExtraInfo(start, pop_time_ms, invisible_ms, revive_queue_id, parts[5])
    except (ValueError, IndexError):
        raise WireError(f"extraInfo is {text[:80]!r}, expected numbers, a kind of topic and a broker") from None


def write_extra_info(receipt: ExtraInfo, topic_kind: int, queue_id: int, queue_offset: int) -> str:
    """Writes the receipt of one message."""
    first = (*receipt[:4], topic_kind, receipt.broker_name)
    return " ".join(map(str, (*first, queue_id, queue_offset)))
