"""Preparing published batches for the store: filling in defaults, and finding what chooses the queues of rows.

A column ``priority`` of the publisher stays a column of its own until rows get RocketMQ's own properties.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.column_bounds import find_lengths, find_names, find_range
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import BodyEncoding
from rmqpull_proto.remoting.properties import OWN, PRIORITY, SHARDING_KEY, TRACE_CONTEXT

_OWN = pa.array(sorted(OWN), pa.string())
_BROKERS_OWN = ("queueOffset", "storeTimestamp", "storeHost", "reconsumeTimes")
"""The columns that are not taken from a publisher."""
_WITH_COLUMN = pa.array([SHARDING_KEY, TRACE_CONTEXT])


def complete_batch(
    published: pa.RecordBatch, message_ids: MessageIds, now_ms: int, born_host: str, store_host: str
) -> pa.RecordBatch:
    """Returns a published batch in the stored schema, with its priorities if it has any.

    Fields that the publisher left out get their defaults.
    """
    count = published.num_rows
    now = columns.make_constant_column(now_ms * 1000, columns.TIMESTAMP, count)
    makers: dict[str, Callable[[], pa.Array]] = {
        "queueOffset": partial(columns.share_offset_column, count),
        "msgId": lambda: message_ids.take(count, now_ms),
        "properties": partial(columns.share_empty_maps, count),
        "systemProperties": partial(columns.share_empty_maps, count),
        "bornTimestamp": lambda: now,
        "bornHost": partial(columns.share_constant_column, born_host, pa.string(), count),
        "storeTimestamp": lambda: now,
        "storeHost": partial(columns.share_constant_column, store_host, pa.string(), count),
        "reconsumeTimes": partial(columns.share_constant_column, 0, pa.int32(), count),
        "bodyEncoding": partial(columns.share_constant_column, int(BodyEncoding.IDENTITY), pa.int32(), count),
    }
    arrays = []
    for field in columns.STORED_SCHEMA:
        is_given = field.name in published.schema.names and field.name not in _BROKERS_OWN
        given = published.column(field.name) if is_given else None
        make = makers.get(field.name, partial(pa.nulls, count, field.type))
        if given is None or given.null_count == count:
            array = make()
        elif field.name in ("tags", "messageGroup"):
            array = _drop_empty(given)
        elif not given.null_count or field.name not in makers:
            array = given
        else:
            array = _drop_null_maps(given) if pa.types.is_map(field.type) else pc.coalesce(given, make())
        arrays.append(array)
    batch = pa.RecordBatch.from_arrays(arrays, schema=columns.STORED_SCHEMA)
    if "priority" in published.schema.names and published.column("priority").null_count < count:
        batch = batch.append_column("priority", published.column("priority"))
    return batch


def take_priorities(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array | None]:
    """Returns a batch in the stored schema, and the priorities of its rows, null where a row's type is another one.

    The priority becomes one of RocketMQ's own properties. ``batch`` comes from :func:`move_own_properties`.
    """
    if "priority" not in batch.schema.names:
        return batch, None
    is_other = pc.or_(pc.is_valid(batch.column("deliveryTimestamp")), pc.is_valid(batch.column("messageGroup")))
    priorities = pc.replace_with_mask(batch.column("priority"), is_other, pa.scalar(None, pa.int32()))
    batch = batch.select(columns.STORED_SCHEMA.names)
    index = batch.schema.get_field_index("systemProperties")
    own = _add_entry(batch.column(index), PRIORITY, priorities.cast(pa.string()))
    return batch.set_column(index, columns.STORED_SCHEMA.field(index), own), priorities


def _add_entry(maps: pa.MapArray, name: str, values: pa.Array) -> pa.MapArray:
    """Returns maps, none of which is null, with one more entry each, unless its value is null."""
    keys, items = (columns.slice_live_values(maps, entries) for entries in (maps.keys, maps.items))
    given = pc.indices_nonzero(values.is_valid()).cast(pa.int64())
    # Arrow ends the process when it is asked for the parents of a map's entries.
    parents = pc.list_parent_indices(pa.ListArray.from_arrays(maps.offsets, maps.keys)).cast(pa.int64())
    # The sort is stable, so the new entry of a map is its last one.
    order = pc.array_sort_indices(pa.concat_arrays([parents, given]))
    counts = pc.add(columns.count_list_entries(maps), values.is_valid().cast(pa.int32()))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
    keys = pa.concat_arrays([keys, pa.repeat(name, len(given))]).take(order)
    items = pa.concat_arrays([items, values.take(given)]).take(order)
    return pa.MapArray.from_arrays(offsets, keys, items, maps.type)


def find_message_groups(batch: pa.RecordBatch) -> pa.Array:
    """Returns the message group of each row, or the ``__SHARDINGKEY`` that the user set in its place."""
    groups, properties = batch.column("messageGroup"), batch.column("properties")
    if not pc.any(pc.equal(find_names(properties), SHARDING_KEY)).as_py():
        return groups
    return pc.coalesce(groups, pc.map_lookup(properties, SHARDING_KEY, "first"))


def move_own_properties(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Moves properties of RocketMQ's that the user set to where RocketMQ looks for them.

    A ``__SHARDINGKEY`` and a ``TRACE_CONTEXT`` go into their columns, as only one value is stored. Others go among the
    system properties, which are empty in a published batch.
    """
    properties = batch.column("properties")
    if not pc.any(pc.is_in(find_names(properties), value_set=_OWN)).as_py():
        return batch
    keys = columns.slice_live_values(properties, properties.keys)
    is_own = pc.is_in(keys, value_set=_OWN)
    changed = {
        "messageGroup": _drop_empty(find_message_groups(batch)),
        "properties": _keep_entries(properties, pc.invert(is_own)),
        "systemProperties": _keep_entries(properties, pc.and_not(is_own, pc.is_in(keys, value_set=_WITH_COLUMN))),
        "traceContext": _drop_empty(pc.map_lookup(properties, TRACE_CONTEXT, "first")),
    }
    arrays = [changed.get(name, batch.column(name)) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)


def _keep_entries(maps: pa.MapArray, is_kept: pa.Array) -> pa.MapArray:
    """Returns maps with some of their entries, none of which is null."""
    counts = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(is_kept.cast(pa.int32()))])
    offsets = counts.take(pc.subtract(maps.offsets, maps.offsets[0]))
    names, values = (columns.slice_live_values(maps, entries).filter(is_kept) for entries in (maps.keys, maps.items))
    return pa.MapArray.from_arrays(offsets, names, values, maps.type)


def find_ordering_groups(batch: pa.RecordBatch, by_keys: bool) -> pa.Array:
    """Returns what chooses the queue of each row if the row names none: its message group, or its keys on request.

    The keys are one text, like RocketMQ stores them. Null for a row with neither.
    """
    groups, keys = batch.column("messageGroup"), batch.column("keys")
    if not by_keys or keys.null_count == len(keys):
        return groups
    return pc.coalesce(groups, _drop_empty(pc.binary_join(keys, " ")))


def has_only_normal_rows(batch: pa.RecordBatch) -> bool:
    """Whether no row has a column that makes a message one of another type than NORMAL.

    It looks at no value. ``batch`` has none of RocketMQ's own properties among those of users.
    """
    absent = all(batch.column(name).null_count == batch.num_rows for name in ("deliveryTimestamp", "messageGroup"))
    return absent and "priority" not in batch.schema.names


def find_chosen_queues(published: pa.RecordBatch, broker_names: Sequence[str], queue_nums: int) -> pa.Array | None:
    """Returns the index of the queue that each row names, among ``queue_nums`` on each broker; null where it names
    none.

    Raises BadRequest for a queue that producers do not see, and for a broker name without a queue id or the reverse.
    """
    given = [name for name in ("brokerName", "queueId") if name in published.schema.names]
    if all(published.column(name).null_count == published.num_rows for name in given):
        return None
    if len(given) < 2:
        raise BadRequest("a row names its queue by brokerName and queueId together, but one of the columns is missing")
    names, numbers = published.column("brokerName"), published.column("queueId")
    brokers = pc.index_in(names, value_set=pa.array(broker_names, pa.string()))
    is_seen = pc.and_kleene(pc.greater_equal(numbers, 0), pc.less(numbers, queue_nums))
    is_known = pc.fill_null(pc.and_(is_seen, pc.is_valid(brokers)), False)
    is_none = pc.and_(names.is_null(), numbers.is_null())
    row = pc.index(pc.or_(is_known, is_none), False).as_py()
    if row >= 0:
        raise BadRequest(
            f"row {row} names queue {numbers[row].as_py()} of broker {names[row].as_py()}, which producers do not see; "
            f"they see queues [0, {queue_nums}) of {', '.join(broker_names)}"
        )
    indexes = pc.add(pc.multiply(brokers, pa.scalar(queue_nums, pa.int32())), numbers)
    return pc.if_else(is_none, pa.scalar(None, pa.int32()), indexes)


def _drop_empty(texts: pa.Array) -> pa.Array:
    """Replaces empty texts by null: Apache's proxy treats an empty tag or message group as absent."""
    if find_lengths(texts).least > 0:
        return texts
    return columns.set_null(texts, pc.equal(pc.binary_length(texts), 0))


def _drop_null_maps(maps: pa.MapArray) -> pa.MapArray:
    """Replaces missing maps by empty ones."""
    entries = pc.filter(columns.count_list_entries(maps), maps.is_null())
    if find_range(entries).greatest > 0:
        # A null map may still refer to entries, which a copy drops.
        maps = maps.take(columns.make_offset_column(0, len(maps)))
    return pa.MapArray.from_arrays(maps.offsets, maps.keys, maps.items, maps.type)
