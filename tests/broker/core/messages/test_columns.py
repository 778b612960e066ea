"""Messages as columns and back."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage

TIMES_MS = st.integers(-(1 << 41), 1 << 47)
MESSAGES = st.builds(
    Message,
    delivery_timestamp_ms=st.none() | TIMES_MS,
    born_timestamp_ms=TIMES_MS,
    transactional=st.just(False),
)
ROWS = st.builds(
    StoredMessage,
    MESSAGES,
    queue_offset=st.integers(0, (1 << 63) - 1),
    store_timestamp_ms=TIMES_MS,
    reconsume_times=st.integers(0, (1 << 31) - 1),
)


@given(st.lists(ROWS, min_size=1, max_size=5))
def test_rows_become_columns_and_rows_again(rows: list[StoredMessage]) -> None:
    batch = columns.from_rows(rows)
    assert batch.schema == columns.STORED_SCHEMA
    batch.validate(full=True)
    assert columns.to_rows([batch]) == rows


def test_a_message_that_sets_nothing_is_null_where_the_row_may_be_null() -> None:
    row = columns.from_rows([StoredMessage(Message(b"x", "ID"), 7, 2_000, "host")]).to_pylist()[0]
    nulls = {name for name, value in row.items() if value is None}
    assert nulls == {"tags", "keys", "messageGroup", "deliveryTimestamp", "traceContext"}
    assert (row["properties"], row["bodyEncoding"], row["reconsumeTimes"]) == ([], BodyEncoding.IDENTITY, 0)


def test_offsets_follow_each_other() -> None:
    assert columns.make_offset_column(1 << 40, 3).to_pylist() == [1 << 40, (1 << 40) + 1, (1 << 40) + 2]
    assert columns.make_offset_column(5, 0) == pa.array([], pa.int64())


@pytest.mark.parametrize(("value", "values"), [("x", ["x", "x"]), (None, [None, None])])
def test_a_constant_column(value: str | None, values: list[str | None]) -> None:
    assert columns.make_constant_column(value, pa.string(), 2) == pa.array(values, pa.string())


@pytest.mark.parametrize("count", [0, 3, 16_384, 16_386, 40_000])
def test_shared_columns_have_as_many_rows_as_asked_for(count: int) -> None:
    text, kind = columns.share_constant_column("x", pa.string(), count), columns.STORED_SCHEMA.field("properties").type
    assert text == columns.make_constant_column("x", pa.string(), count)
    assert columns.share_offset_column(count) == columns.make_offset_column(0, count)
    assert columns.share_offset_column(count, 34, pa.int32()) == pa.array(range(0, 34 * count, 34), pa.int32())
    assert columns.share_empty_maps(count) == pa.array([[]] * count, kind)


def test_batches_share_the_memory_of_a_constant() -> None:
    first, second = (columns.share_constant_column(7, pa.int32(), count) for count in (2, 5))
    assert first.buffers()[1].address == second.buffers()[1].address
    assert columns.share_constant_column(8, pa.int32(), 2).to_pylist() == [8, 8]


def plain_size(row: StoredMessage) -> int:
    message = row.message
    texts = [message.tags or "", *message.keys, *message.properties, *message.properties.values()]
    return len(message.body) + sum(len(text.encode()) for text in texts)


@given(st.lists(ROWS, min_size=1, max_size=8), st.data())
def test_the_size_of_a_row_is_body_tags_keys_and_properties_in_any_slice(
    rows: list[StoredMessage], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(rows)))
    count = data.draw(st.integers(0, len(rows) - start))
    batch = columns.from_rows(rows).slice(start, count)
    wanted = [plain_size(row) for row in rows[start : start + count]]
    assert columns.count_row_bytes(batch).to_pylist() == wanted
    assert columns.count_bytes(batch) == sum(wanted)


def test_what_a_null_list_or_map_hides_is_not_counted() -> None:
    spread, hidden = pa.array([0, 1, 2], pa.int32()), pa.array([True, False])
    texts = pa.array(["secret", "x"])
    batch = pa.record_batch(
        {
            "body": pa.array([None, b"body"], pa.binary()),
            "tags": pa.array([None, "tag"], pa.string()),
            "keys": pa.ListArray.from_arrays(spread, texts, mask=hidden),
            "properties": pa.MapArray.from_arrays(spread, texts, texts, mask=hidden),
        }
    )
    assert columns.count_row_bytes(batch).to_pylist() == [0, 10]
    assert [columns.count_bytes(batch.slice(first)) for first in (0, 1)] == [10, 10]
    assert columns.count_bytes(batch.slice(0, 1)) == 0


def test_lengths_and_values_of_a_slice_are_those_of_its_rows_alone() -> None:
    kind = columns.STORED_SCHEMA.field("properties").type
    maps = pa.array([[("a", "1")], [], [("b", "2"), ("c", "3")], [("d", "4")]], kind).slice(1, 2)
    assert columns.count_list_entries(maps).to_pylist() == [0, 2]
    assert columns.slice_live_values(maps, maps.keys).to_pylist() == ["b", "c"]


@pytest.mark.parametrize(("byte_budget", "count"), [(-1, 0), (0, 0), (2, 0), (3, 1), (9, 2), (10, 3), (99, 3)])
def test_leading_rows_within_a_budget(byte_budget: int, count: int) -> None:
    assert columns.count_leading_rows_within(pa.array([3, 3, 4], pa.int64()), byte_budget) == count
