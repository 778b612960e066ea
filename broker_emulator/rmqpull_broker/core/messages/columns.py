"""Messages as Arrow columns: the form in which queues store messages, and in which filters and limits read them.

The names are those of the Spark row, so that a pull sends stored columns without changes. ``traceContext`` is only for
the standard protocol. ``systemProperties`` has RocketMQ's own properties that have no column.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage

TIMESTAMP = pa.timestamp("us", tz="UTC")
_OFFSET_TYPE = pa.int64()
_SHARED_ROWS = 16_385
"""The most rows of a column that batches share, or edges between them: more than most batches have."""

STORED_SCHEMA = pa.schema(
    [
        ("queueOffset", pa.int64()),
        ("msgId", pa.string()),
        ("tags", pa.string()),
        ("keys", pa.list_(pa.field("element", pa.string()))),
        ("body", pa.binary()),
        ("properties", pa.map_(pa.string(), pa.string())),
        ("bornTimestamp", TIMESTAMP),
        ("bornHost", pa.string()),
        ("storeTimestamp", TIMESTAMP),
        ("storeHost", pa.string()),
        ("reconsumeTimes", pa.int32()),
        ("messageGroup", pa.string()),
        ("deliveryTimestamp", TIMESTAMP),
        ("bodyEncoding", pa.int32()),
        ("traceContext", pa.string()),
        ("systemProperties", pa.map_(pa.string(), pa.string())),
    ]
)

_NAMES = STORED_SCHEMA.names

UNPLACED_SCHEMA = pa.schema(
    [field for field in STORED_SCHEMA if field.name not in ("queueOffset", "storeTimestamp", "storeHost")]
)
"""The columns of messages without what a queue gives them: offset, store time and store host (:func:`place_rows`)."""


def make_offset_column(first_offset: int, row_count: int) -> pa.Array:
    """Returns ``row_count`` consecutive offsets as int64, without a Python object for each."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), row_count), start=first_offset - 1)


def make_constant_column(value: Any, data_type: pa.DataType, row_count: int) -> pa.Array:
    """Returns the same value (or null) in every row."""
    return pa.nulls(row_count, data_type) if value is None else pa.repeat(pa.scalar(value, data_type), row_count)


def share_constant_column(value: str | int, data_type: pa.DataType, row_count: int) -> pa.Array:
    """Returns the same value in every row, as :func:`make_constant_column` does.

    Batches share the memory of such columns, and those of the next functions: they are made once.
    """
    return _share(make_constant_column, (value, data_type), row_count)


def share_offset_column(row_count: int, step: int = 1, data_type: pa.DataType = _OFFSET_TYPE) -> pa.Array:
    """Returns the offsets of ``row_count`` values of ``step`` elements each, from 0."""
    return _share(_make_steps, (step, data_type), row_count)


def share_empty_maps(row_count: int) -> pa.MapArray:
    """Returns maps of texts without entries."""
    return _share(_make_empty_maps, (), row_count)


def _share(make: Callable[..., pa.Array], arguments: tuple[Any, ...], row_count: int) -> pa.Array:
    if row_count > _SHARED_ROWS:
        return make(*arguments, row_count)
    return _make_shared(make, arguments).slice(0, row_count)


@functools.lru_cache(maxsize=16)
def _make_shared(make: Callable[..., pa.Array], arguments: tuple[Any, ...]) -> pa.Array:
    return make(*arguments, _SHARED_ROWS)


def _make_steps(step: int, data_type: pa.DataType, row_count: int) -> pa.Array:
    return pc.cumulative_sum(pa.repeat(pa.scalar(step, data_type), row_count), start=-step)


def _make_empty_maps(row_count: int) -> pa.MapArray:
    nothing = pa.array([], pa.string())
    return pa.MapArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), row_count + 1), nothing, nothing)


def concat_batches(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Copies batches of one schema into one batch in new memory. Arrow itself can do it since release 19."""
    arrays = [pa.concat_arrays([batch.column(i) for batch in batches]) for i in range(batches[0].num_columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=batches[0].schema)


def set_null(texts: pa.Array, where: pa.Array) -> pa.Array:
    """Returns texts with null where the mask is true or null.

    Not ``if_else`` with a null: up to Arrow 21 at least, it returns wrong texts when ``texts`` is a slice.
    """
    return pc.replace_with_mask(texts, where, pa.scalar(None, texts.type))


def set_offsets_and_times(
    batch: pa.RecordBatch, offsets: pa.Array, store_times: Sequence[tuple[int, int]]
) -> pa.RecordBatch:
    """Returns the rows of ``STORED_SCHEMA`` with these offsets, and with store times: pairs of a time in ms and the
    number of following rows that have it."""
    runs = [make_constant_column(time_ms * 1000, TIMESTAMP, count) for time_ms, count in _join_runs(store_times)]
    times = runs[0] if len(runs) == 1 else pa.concat_arrays(runs)
    replaced = {"queueOffset": offsets, "storeTimestamp": times}
    arrays = [replaced.get(field.name, batch.column(field.name)) for field in STORED_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


def _join_runs(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    by_time = itertools.groupby(runs, key=lambda run: run[0])
    return [(time_ms, sum(count for _, count in group)) for time_ms, group in by_time]


def from_rows(rows: Sequence[StoredMessage]) -> pa.RecordBatch:
    """Converts stored messages to columns (``STORED_SCHEMA``)."""
    columns = zip(*map(_list_values, rows), strict=True)
    arrays = [pa.array(values, column.type) for values, column in zip(columns, STORED_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


def _list_values(row: StoredMessage) -> tuple[Any, ...]:
    message = row.message
    delivery_ms = message.delivery_timestamp_ms
    return (
        row.queue_offset,
        message.msg_id,
        message.tags,
        message.keys or None,
        message.body,
        list(message.properties.items()),
        message.born_timestamp_ms * 1000,
        message.born_host,
        row.store_timestamp_ms * 1000,
        row.store_host,
        row.reconsume_times,
        message.message_group,
        None if delivery_ms is None else delivery_ms * 1000,
        int(message.body_encoding),
        message.trace_context,
        list(message.system_properties.items()),
    )


def to_rows(batches: Iterable[pa.RecordBatch]) -> list[StoredMessage]:
    """Converts columns to stored messages, for responses with one message per frame."""
    rows: list[StoredMessage] = []
    for batch in batches:
        lists = [_make_plain(column).to_pylist() for column in batch.columns]
        rows.extend(_make_stored(*values) for values in zip(*lists, strict=True))
    return rows


def _make_plain(column: pa.Array) -> pa.Array:
    """Returns times as numbers: a datetime object would cost more than the message."""
    return column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column


def _make_stored(
    queue_offset: int,
    msg_id: str,
    tags: str | None,
    keys: list[str] | None,
    body: bytes,
    properties: list[tuple[str, str]] | None,
    born_us: int,
    born_host: str,
    store_us: int,
    store_host: str,
    reconsume_times: int,
    message_group: str | None,
    delivery_us: int | None,
    body_encoding: int,
    trace_context: str | None,
    system_properties: list[tuple[str, str]] | None,
) -> StoredMessage:
    message = Message(
        body=body,
        msg_id=msg_id,
        tags=tags,
        keys=tuple(keys or ()),
        properties=dict(properties or ()),
        message_group=message_group,
        delivery_timestamp_ms=None if delivery_us is None else delivery_us // 1000,
        born_timestamp_ms=born_us // 1000,
        born_host=born_host,
        body_encoding=BodyEncoding(body_encoding),
        trace_context=trace_context,
        system_properties=dict(system_properties or ()),
    )
    return StoredMessage(message, queue_offset, store_us // 1000, store_host, reconsume_times)


def count_list_entries(lists: pa.Array) -> pa.Array:
    """Returns the number of entries of each list or map. Arrow's own function does not accept maps."""
    offsets = lists.offsets
    return pc.subtract(offsets.slice(1), offsets.slice(0, len(lists)))


def slice_live_values(lists: pa.Array, values: pa.Array) -> pa.Array:
    """Returns the part of ``values``, the child of lists or maps, that belongs to this slice of them."""
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return values.slice(first, last - first)


def count_row_bytes(batch: pa.RecordBatch) -> pa.Array:
    """Returns the bytes of body, tags, keys and user properties of each row, which the limits of ``rmqpull.v1``
    count."""
    keys = batch.column("keys")
    sizes = [
        count_text_bytes(batch, ["body", "tags"]),
        _count_list_bytes(keys, keys.values),
        count_map_bytes(batch.column("properties")),
    ]
    return functools.reduce(pc.add, sizes)


def count_map_bytes(maps: pa.Array, bytes_per_entry: int = 0) -> pa.Array:
    """Returns the bytes of the texts of each map, plus ``bytes_per_entry`` for each entry (int64)."""
    texts = pc.add(_count_list_bytes(maps, maps.keys), _count_list_bytes(maps, maps.items))
    entries = pc.if_else(pc.is_valid(maps), pc.cast(count_list_entries(maps), pa.int64()), pa.scalar(0, pa.int64()))
    return pc.add(texts, pc.multiply(entries, bytes_per_entry))


def format_milliseconds(times: pa.Array) -> pa.Array:
    """Returns times in the form of RocketMQ's properties: whole milliseconds since the epoch, in decimal digits."""
    return pc.cast(pc.cast(times, pa.timestamp("ms", "UTC"), safe=False), pa.int64()).cast(pa.string())


def count_bytes(batch: pa.RecordBatch) -> int:
    """Returns the sum of :func:`count_row_bytes`, without one for each row where no list or map is null."""
    lists = [(batch.column("keys"), ("values",)), (batch.column("properties"), ("keys", "items"))]
    if any(0 < column.null_count < len(column) for column, _ in lists):
        return int(pc.sum(count_row_bytes(batch)).as_py() or 0)
    texts = [batch.column("body"), batch.column("tags")]
    for column, children in lists:
        if not column.null_count:
            texts += [slice_live_values(column, getattr(column, child)) for child in children]
    return sum(pc.sum(pc.binary_length(each)).as_py() or 0 for each in texts)


def sum_parts(values: pa.Array, row_counts: Sequence[int]) -> list[int]:
    """Returns the sum of the values of each part: the next so many rows (int64)."""
    sums = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(values)])
    edges = sums.take(pa.array([0, *itertools.accumulate(row_counts)], pa.int64()))
    return pc.subtract(edges.slice(1), edges.slice(0, len(row_counts))).to_pylist()  # type: ignore[no-any-return]


def count_body_bytes(batch: pa.RecordBatch) -> pa.Array:
    """Returns the bytes of the body of each row (int64)."""
    return _count_value_bytes(batch.column("body"))


def place_rows(batch: pa.RecordBatch, first_offset: int, store_ms: int, store_host: str) -> pa.RecordBatch:
    """Returns rows in ``STORED_SCHEMA`` with consecutive offsets, one store time and one store host.

    ``batch`` may lack these three columns. Other columns that it lacks become null.
    """
    count, names = batch.num_rows, batch.schema.names
    given = {
        "queueOffset": pc.add(share_offset_column(count), pa.scalar(first_offset, pa.int64())),
        "storeTimestamp": _make_repeated("storeTimestamp", store_ms * 1000, count),
        "storeHost": _make_repeated("storeHost", store_host, count),
    }
    arrays = []
    for name in _NAMES:
        array = given.get(name)
        if array is None:
            array = batch.column(name) if name in names else _make_repeated(name, None, count)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


@functools.lru_cache(maxsize=64)
def _make_repeated(name: str, value: Any, row_count: int) -> pa.Array:
    """Makes a constant column. Cached, because parts of one write have few sizes; a slice would be sent as a whole."""
    return make_constant_column(value, STORED_SCHEMA.field(name).type, row_count)


def count_text_bytes(batch: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """Returns the bytes of the named text or binary columns of each row."""
    return functools.reduce(pc.add, (_count_value_bytes(batch.column(name)) for name in names))


def _count_value_bytes(column: pa.Array) -> pa.Array:
    return pc.cast(pc.fill_null(pc.binary_length(column), 0), pa.int64())


def _count_list_bytes(lists: pa.Array, values: pa.Array) -> pa.Array:
    """Returns the bytes of the values of each list, as differences of their running sum."""
    sums = pc.cumulative_sum(_count_value_bytes(slice_live_values(lists, values)))
    edges = pa.concat_arrays([pa.array([0], pa.int64()), sums]).take(pc.subtract(lists.offsets, lists.offsets[0]))
    sizes = pc.subtract(edges.slice(1), edges.slice(0, len(lists)))
    return pc.if_else(pc.is_valid(lists), sizes, pa.scalar(0, pa.int64()))


def count_leading_rows_within(sizes: pa.Array, byte_budget: int) -> int:
    """Returns how many leading rows of these sizes fit into ``byte_budget`` bytes."""
    within = pc.less_equal(pc.cumulative_sum(sizes), byte_budget)
    return int(pc.sum(within).as_py() or 0)
