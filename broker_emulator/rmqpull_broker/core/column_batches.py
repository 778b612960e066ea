"""Published batches on their way to the store: what was left out is filled in, and rows are brought to their queues."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import columns
from rmqpull_broker.core.message_ids import MessageIds
from rmqpull_broker.core.model import BodyEncoding
from rmqpull_broker.core.queue_selection import by_message_group


def complete(
    published: pa.RecordBatch, message_ids: MessageIds, now_ms: int, born_host: str, store_host: str
) -> pa.RecordBatch:
    """Brings a published batch to the stored schema; what the publisher left out gets its default."""
    count = published.num_rows
    defaults = {
        "properties": pa.scalar(None, columns.STORED_SCHEMA.field("properties").type),
        "systemProperties": pa.scalar(None, columns.STORED_SCHEMA.field("systemProperties").type),
        "bornTimestamp": pa.scalar(now_ms * 1000, columns.TIMESTAMP),
        "bornHost": pa.scalar(born_host),
        "bodyEncoding": pa.scalar(int(BodyEncoding.IDENTITY), pa.int32()),
    }
    given = {
        "queueOffset": columns.offset_column(0, count),
        "storeTimestamp": columns.constant_column(now_ms * 1000, columns.TIMESTAMP, count),
        "storeHost": columns.constant_column(store_host, pa.string(), count),
        "reconsumeTimes": columns.constant_column(0, pa.int32(), count),
    }
    arrays = []
    for field in columns.STORED_SCHEMA:
        array = given.get(field.name)
        if array is None and field.name in published.schema.names:
            array = published.column(field.name)
        if array is None:
            array = columns.constant_column(None, field.type, count)
        if field.name in ("tags", "messageGroup"):
            array = _without_empty(array)
        elif array.null_count and field.name == "msgId":
            array = pc.coalesce(array, message_ids.take(count, now_ms))
        elif array.null_count and field.name in defaults:
            array = _fill(array, defaults[field.name])
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=columns.STORED_SCHEMA)


def sort_by_queue(
    batch: pa.RecordBatch, queue_count: int, in_turn: Callable[[int], int]
) -> tuple[pa.RecordBatch, list[tuple[int, int]]]:
    """The rows grouped by queue, their order within a queue kept, and (queue's index, rows) of each group.

    A row of a message group goes to the queue of its group; the others take the queues in turn, from the one on that
    ``in_turn`` gives for their number.
    """
    queue_ids = _queue_ids(batch.column("messageGroup"), queue_count, in_turn)
    if queue_count > 1:
        # Sorting (queue, position) pairs keeps the order of rows that go to the same queue.
        positions = pa.table({"queue": queue_ids, "row": columns.offset_column(0, batch.num_rows)})
        batch = batch.take(pc.sort_indices(positions, [("queue", "ascending"), ("row", "ascending")]))
    tallies = pc.value_counts(queue_ids)
    counts = zip(tallies.field(0).to_pylist(), tallies.field(1).to_pylist(), strict=True)
    return batch, sorted(counts)


def _queue_ids(groups: pa.Array, queue_count: int, in_turn: Callable[[int], int]) -> pa.Array:
    ungrouped = groups.null_count
    if not ungrouped:
        return by_message_group(groups, queue_count)
    turns = _turns(in_turn(ungrouped), queue_count, ungrouped)
    if ungrouped == len(groups):
        return turns
    return pc.replace_with_mask(by_message_group(groups, queue_count), groups.is_null(), turns)


def _turns(first: int, queue_count: int, row_count: int) -> pa.Array:
    one_round = pa.array([*range(first, queue_count), *range(first)], pa.int32())
    rounds = -(-row_count // queue_count)
    return pa.concat_arrays([one_round] * rounds).slice(0, row_count)


def _without_empty(texts: pa.Array) -> pa.Array:
    """Empty texts as null: Apache's proxy takes an empty tag or message group for none."""
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, texts.type), texts)


def _fill(array: pa.Array, default: pa.Scalar) -> pa.Array:
    """Nulls replaced by ``default``; a missing map is an empty one, which is one without its null flag."""
    if pa.types.is_map(array.type):
        # A null may still cover entries; a copy does not.
        array = array.take(columns.offset_column(0, len(array)))
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, array.type)
    return pc.fill_null(array, default)
