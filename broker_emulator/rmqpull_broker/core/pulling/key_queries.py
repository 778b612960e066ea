"""Messages by id and by key (rules 4.6): VIEW_MESSAGE_BY_ID and QUERY_MESSAGE.

Apache's broker has an index of keys. Here a query reads the columns of the topic's queues within its range of store
times, the newest messages first, and ends when it has found enough messages or has read ROWS_MAX.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.limits import TIMES_MS
from rmqpull_broker.core.messages.columns import make_offset_column
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.messages.remoting_records import encode_records
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.bounds import find_offset_at_time
from rmqpull_broker.core.state.broker_state import BrokerState

COUNT_MAX = 64
"""The most messages that a query returns (``maxMsgsNumBatch``)."""
ROWS_MAX = 1_000_000
"""The most messages that a query reads, on all queues of a topic together."""
BYTES_MAX = 8 << 20
"""The most bytes that a query returns, unless a single message is larger."""
_SLICE_ROWS = 8_192


class KeyQuery(NamedTuple):
    """QUERY_MESSAGE: a key or a message id, and a range of store times, both included."""

    topic: str
    key: str
    count_max: int
    begin_ms: int
    end_ms: int


class Found(NamedTuple):
    """A message as a record, with its place in the order of all messages of its broker."""

    store_timestamp_ms: int
    physical_offset: int
    record: bytes


def find_message(state: BrokerState, broker_name: str, physical_offset: int) -> bytes | None:
    """Returns the message at a physical offset as a record; None if there is none."""
    located = state.physical_offsets.locate(broker_name, physical_offset)
    if located is None:
        return None
    queue, offset = located
    bounds = state.bounds(queue)
    if not bounds.min_offset <= offset < bounds.max_offset:
        return None
    rows = next(state.store.read(queue, offset, offset + 1))
    (found,) = _encode(state, queue, rows)
    return found.record if found.physical_offset == physical_offset else None


def search(state: BrokerState, broker_name: str, query: KeyQuery) -> Iterator[list[Found]]:
    """Searches slice by slice. After each slice, yields the newest messages found so far, in order.

    Other work may run between two slices.
    """
    topic = state.find_topic(query.topic)
    found: list[Found] = []
    if topic is None or query.count_max <= 0 or not query.key:
        return
    rows_left = ROWS_MAX
    for queue_id in range(max(topic.read_queue_nums, topic.write_queue_nums)):
        queue = MessageQueue(topic.name, broker_name, queue_id)
        in_queue = 0
        for rows in _read_backwards(state, queue, query):
            matching = rows.filter(_find_key(rows, query))
            found += _encode(state, queue, matching)
            in_queue += matching.num_rows
            rows_left -= rows.num_rows
            found = sorted(heapq.nlargest(query.count_max, found))
            yield found
            if in_queue >= query.count_max or rows_left <= 0:
                break
        if rows_left <= 0:
            break


def _read_backwards(state: BrokerState, queue: MessageQueue, query: KeyQuery) -> Iterator[pa.RecordBatch]:
    """Yields the rows of a queue that were stored in the range, slices with newer ones first."""
    bounds = state.bounds(queue)
    if bounds.min_offset >= bounds.max_offset:
        return
    first_ms, last_ms = TIMES_MS
    begin = find_offset_at_time(state, queue, max(first_ms, query.begin_ms))
    end = find_offset_at_time(state, queue, max(first_ms, min(query.end_ms, last_ms)) + 1)
    while end > max(begin, state.bounds(queue).min_offset):
        start = max(begin, state.bounds(queue).min_offset, end - _SLICE_ROWS)
        yield from reversed(list(state.store.read(queue, start, end)))
        end = start


def _find_key(rows: pa.RecordBatch, query: KeyQuery) -> pa.Array:
    """Returns which rows have the key, or have it as their id, and were stored in the range."""
    keys = rows.column("keys")
    parents = pc.list_parent_indices(keys).filter(pc.equal(pc.list_flatten(keys), query.key))
    positions = make_offset_column(0, rows.num_rows)
    has_key = pc.is_in(positions, value_set=parents.cast(pa.int64()))
    times_ms = pc.divide(rows.column("storeTimestamp").cast(pa.int64()), 1000)
    first_ms, last_ms = TIMES_MS
    in_range = pc.and_(
        pc.greater_equal(times_ms, max(first_ms, query.begin_ms)), pc.less_equal(times_ms, min(query.end_ms, last_ms))
    )
    return pc.and_(pc.or_(has_key, pc.equal(rows.column("msgId"), query.key)), in_range)


def _encode(state: BrokerState, queue: MessageQueue, rows: pa.RecordBatch) -> list[Found]:
    if not rows.num_rows:
        return []
    base = state.physical_offsets.find(queue, 0)
    records = encode_records(rows, queue.topic, queue.queue_id, base, make_common_properties(state.properties))
    times_us = rows.column("storeTimestamp").cast(pa.int64()).to_pylist()
    offsets = rows.column("queueOffset").to_pylist()
    bounds = zip(records.ends[:-1], records.ends[1:], strict=True)
    return [
        Found(time_us // 1000, base + offset, bytes(records.data[start:end]))
        for time_us, offset, (start, end) in zip(times_us, offsets, bounds, strict=True)
    ]


def cut_to_bytes(found: list[Found]) -> list[Found]:
    """Returns the newest messages that fit into BYTES_MAX, at least one."""
    taken = 0
    for count, each in enumerate(reversed(found)):
        taken += len(each.record)
        if taken > BYTES_MAX and count:
            return found[len(found) - count :]
    return found
