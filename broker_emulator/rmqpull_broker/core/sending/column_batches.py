"""Published batches on their way to the store: what was left out is filled in, and rows are brought to their queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import SHARDING_KEY, BodyEncoding
from rmqpull_broker.core.sending.queue_selection import select_by_message_group


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
        "queueOffset": columns.make_offset_column(0, count),
        "storeTimestamp": columns.make_constant_column(now_ms * 1000, columns.TIMESTAMP, count),
        "storeHost": columns.make_constant_column(store_host, pa.string(), count),
        "reconsumeTimes": columns.make_constant_column(0, pa.int32(), count),
    }
    arrays = []
    for field in columns.STORED_SCHEMA:
        array = given.get(field.name)
        if array is None and field.name in published.schema.names:
            array = published.column(field.name)
        if array is None:
            array = columns.make_constant_column(None, field.type, count)
        if field.name in ("tags", "messageGroup"):
            array = _without_empty(array)
        elif array.null_count and field.name == "msgId":
            array = pc.coalesce(array, message_ids.take(count, now_ms))
        elif array.null_count and field.name in defaults:
            array = _fill(array, defaults[field.name])
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=columns.STORED_SCHEMA)


def find_message_groups(batch: pa.RecordBatch) -> pa.Array:
    """The message group of each row of a stored batch, or what its user has set as ``__SHARDINGKEY`` in its place."""
    groups, properties = batch.column("messageGroup"), batch.column("properties")
    if not pc.any(pc.equal(columns.slice_live_values(properties, properties.keys), SHARDING_KEY)).as_py():
        return groups
    return pc.coalesce(groups, pc.map_lookup(properties, SHARDING_KEY, "first"))


def move_message_groups(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with each message group in its column alone: RocketMQ keeps one value, the user's where no other is."""
    properties = batch.column("properties")
    keys = columns.slice_live_values(properties, properties.keys)
    kept = pc.not_equal(keys, SHARDING_KEY)
    if pc.all(kept).as_py():
        return batch
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(kept.cast(pa.int32()))])
    offsets = counts.take(pc.subtract(properties.offsets, properties.offsets[0]))
    items = columns.slice_live_values(properties, properties.items)
    maps = pa.MapArray.from_arrays(offsets, keys.filter(kept), items.filter(kept), properties.type)
    changed = {"messageGroup": _without_empty(find_message_groups(batch)), "properties": maps}
    arrays = [changed.get(name, batch.column(name)) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def sort_by_queue(
    batch: pa.RecordBatch, queue_ids: pa.Array, queue_count: int
) -> tuple[pa.RecordBatch, list[tuple[int, int]]]:
    """The rows grouped by queue, their order within a queue kept, and (queue's index, rows) of each group."""
    if queue_count > 1:
        # Sorting (queue, position) pairs keeps the order of rows that go to the same queue.
        positions = pa.table({"queue": queue_ids, "row": columns.make_offset_column(0, batch.num_rows)})
        batch = batch.take(pc.sort_indices(positions, [("queue", "ascending"), ("row", "ascending")]))
    tallies = pc.value_counts(queue_ids)
    counts = zip(tallies.field(0).to_pylist(), tallies.field(1).to_pylist(), strict=True)
    return batch, sorted(counts)


def queue_ids(groups: pa.Array, chosen: pa.Array | None, queue_count: int, in_turn: Callable[[int], int]) -> pa.Array:
    """The index of each row's queue: the one that it names, else that of its group, else the queues in turn, from the
    one on that ``in_turn`` gives for the number of such rows.
    """
    known = None
    if groups.null_count < len(groups):
        known = select_by_message_group(groups, queue_count)
    if chosen is not None:
        known = chosen if known is None else pc.coalesce(chosen, known)
    if known is None:
        return _turns(in_turn(len(groups)), queue_count, len(groups))
    if not known.null_count:
        return known
    return pc.replace_with_mask(
        known, known.is_null(), _turns(in_turn(known.null_count), queue_count, known.null_count)
    )


def join_keys(keys: pa.Array) -> pa.Array:
    """The keys of each row as one text, as RocketMQ keeps them; null where there are none."""
    return _without_empty(pc.binary_join(keys, " "))


def find_chosen_queues(published: pa.RecordBatch, broker_names: Sequence[str], queue_nums: int) -> pa.Array | None:
    """The index of the queue that each row names, among ``queue_nums`` on each broker; null where it names none.

    Raises BadRequest for a queue that producers do not see, and for a broker name without a queue id or the reverse.
    """
    given = [name for name in ("brokerName", "queueId") if name in published.schema.names]
    if all(published.column(name).null_count == published.num_rows for name in given):
        return None
    if len(given) < 2:
        raise BadRequest("a row names its queue by brokerName and queueId together, and one of the columns is missing")
    names, numbers = published.column("brokerName"), published.column("queueId")
    brokers = pc.index_in(names, value_set=pa.array(broker_names, pa.string()))
    is_seen = pc.and_kleene(pc.greater_equal(numbers, 0), pc.less(numbers, queue_nums))
    is_known = pc.fill_null(pc.and_(is_seen, pc.is_valid(brokers)), False)
    is_none = pc.and_(names.is_null(), numbers.is_null())
    row = pc.index(pc.or_(is_known, is_none), False).as_py()
    if row >= 0:
        raise BadRequest(
            f"row {row} is meant for queue {numbers[row].as_py()} of broker {names[row].as_py()}, which producers do "
            f"not see; they see [0, {queue_nums}) of {', '.join(broker_names)}"
        )
    places = pc.add(pc.multiply(brokers, pa.scalar(queue_nums, pa.int32())), numbers)
    return pc.if_else(is_none, pa.scalar(None, pa.int32()), places)


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
        array = array.take(columns.make_offset_column(0, len(array)))
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, array.type)
    return pc.fill_null(array, default)
