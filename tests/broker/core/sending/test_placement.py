"""Rows that nothing places are stored as they came, in slices; if any row of a topic is placed, all are, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import MessageQueue, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.publishing import TopicPart
from rmqpull_broker.core.sending.storing import BatchToStore
from rmqpull_broker.core.state.draft import Draft
from tests.harness.core import CoreHarness

DUE = pa.array([None, 500_000], pa.timestamp("us", "UTC"))


def prepare(core: CoreHarness, rows: pa.RecordBatch, **more: Any) -> BatchToStore:
    return core.sender.prepare(Draft(core.state), core.check(rows, **more), core.now_ms)


def batch_of(row_count: int, **columns: Any) -> pa.RecordBatch:
    """Rows with the bodies 0, 1, ..., and further columns of two values, which the last two rows have."""
    wide = {name: pa.concat_arrays([pa.nulls(row_count - 2, two.type), two]) for name, two in columns.items()}
    return pa.record_batch({"body": pa.array([b"%d" % row for row in range(row_count)]), **wide})


def sizes(stored: BatchToStore) -> list[tuple[int, int]]:
    return [(queue.queue_id, count) for queue, count in stored.queues]


def is_copied(rows: pa.RecordBatch, stored: BatchToStore) -> bool:
    return bool(rows.column("body").buffers()[2].address != stored.batch.column("body").buffers()[2].address)


def bodies_of(stored: BatchToStore, topic: str = "orders") -> dict[int, list[int]]:
    """The bodies of each queue of a topic, in their order."""
    found, begin = dict[int, list[int]](), 0
    for queue, count in stored.queues:
        if queue.topic == topic:
            found.setdefault(queue.queue_id, []).extend(
                map(int, stored.batch.column("body")[begin : begin + count].to_pylist())
            )
        begin += count
    return found


@pytest.fixture
def core() -> CoreHarness:
    core = CoreHarness()
    core.state.properties = BrokerProperties(enable_mixed_message_type=True)
    core.topic(4, TopicType.MIXED)
    return core


def test_rows_that_nothing_places_are_slices_of_the_batch_as_it_came(core: CoreHarness) -> None:
    rows = batch_of(10)
    stored = prepare(core, rows)
    assert sizes(stored) == [(0, 3), (1, 3), (2, 2), (3, 2)]
    assert bodies_of(stored) == {0: [0, 1, 2], 1: [3, 4, 5], 2: [6, 7], 3: [8, 9]}
    assert not is_copied(rows, stored)
    assert sizes(prepare(core, rows)) == [(2, 3), (3, 3), (0, 2), (1, 2)]


def test_a_minimum_of_rows_takes_fewer_queues_and_the_next_ones_next_time(core: CoreHarness) -> None:
    rows = batch_of(10)
    taken = [sizes(prepare(core, rows, slice_rows_min=4)) for _ in range(3)]
    assert taken == [[(0, 5), (1, 5)], [(2, 5), (3, 5)], [(0, 5), (1, 5)]]
    assert sizes(prepare(core, rows, slice_rows_min=11)) == [(2, 10)]
    assert sizes(prepare(core, rows, slice_rows_min=2)) == [(0, 3), (1, 3), (2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("columns", "placed"),
    [
        ({"messageGroup": pa.array([None, "g"])}, {0: [0, 4], 1: [1, 5], 2: [2], 3: [3]}),
        ({"deliveryTimestamp": DUE}, {0: [0, 4], 1: [1, 5], 2: [2], 3: [3]}),
        ({"priority": pa.array([None, 3], pa.int32())}, {0: [0, 4], 1: [1], 2: [2], 3: [3, 5]}),
        (
            {"brokerName": pa.array([None, "broker-a"]), "queueId": pa.array([None, 3], pa.int32())},
            {0: [0, 4], 1: [1], 2: [2], 3: [3, 5]},
        ),
        (
            {"keys": pa.array([None, ["g"]], pa.list_(pa.field("element", pa.string())))},
            {0: [0, 4], 1: [1, 5], 2: [2], 3: [3]},
        ),
    ],
    ids=["a group", "a delivery time", "a priority", "a named queue", "keys"],
)
def test_one_placed_row_lets_the_others_take_the_queues_in_turn(
    core: CoreHarness, columns: dict[str, pa.Array], placed: dict[int, list[int]]
) -> None:
    rows = batch_of(6, **columns)
    stored = prepare(core, rows, by_keys="keys" in columns, slice_rows_min=3)
    assert bodies_of(stored) == placed
    assert is_copied(rows, stored)


@pytest.mark.parametrize("by_keys", [False, True])
def test_columns_without_values_place_nothing(core: CoreHarness, by_keys: bool) -> None:
    names = {"messageGroup": pa.string(), "deliveryTimestamp": DUE.type, "priority": pa.int32(), "queueId": pa.int32()}
    nothing = {name: pa.nulls(2, kind) for name, kind in names.items()}
    rows = batch_of(6, **nothing, keys=pa.nulls(2, pa.list_(pa.field("element", pa.string()))))
    stored = prepare(core, rows, by_keys=by_keys)
    assert sizes(stored) == [(0, 2), (1, 2), (2, 1), (3, 1)]
    assert not is_copied(rows, stored)


def test_keys_place_rows_only_on_request(core: CoreHarness) -> None:
    rows = batch_of(4, keys=pa.array([["g"], ["g"]], pa.list_(pa.field("element", pa.string()))))
    assert not is_copied(rows, prepare(core, rows))


def test_each_topic_of_a_batch_has_slices_of_its_own(core: CoreHarness) -> None:
    core.topic(2, TopicType.MIXED, name="paid")
    parts = [TopicPart("orders", 6), TopicPart("paid", 4, slice_rows_min=3)]
    rows = batch_of(10)
    stored = prepare(core, rows, parts=parts)
    assert bodies_of(stored) == {0: [0, 1], 1: [2, 3], 2: [4], 3: [5]}
    assert bodies_of(stored, "paid") == {0: [6, 7, 8, 9]}
    assert not is_copied(rows, stored)


def test_a_topic_with_a_placed_row_changes_nothing_for_the_others(core: CoreHarness) -> None:
    core.topic(2, TopicType.MIXED, name="paid")
    rows = batch_of(10, messageGroup=pa.array(["g", None]))
    stored = prepare(core, rows, parts=[TopicPart("orders", 6), TopicPart("paid", 4)])
    assert bodies_of(stored) == {0: [0, 1], 1: [2, 3], 2: [4], 3: [5]}
    in_turn = bodies_of(stored, "paid")
    assert sorted(in_turn[0] + in_turn[1]) == [6, 7, 8, 9]
    assert is_copied(rows, stored)


@given(
    calls=st.lists(st.tuples(st.integers(1, 40), st.integers(0, 20)), min_size=1, max_size=6),
    queue_count=st.integers(1, 8),
)
def test_published_rows_are_stored_once_and_keep_their_order_in_each_queue(
    calls: Sequence[tuple[int, int]], queue_count: int
) -> None:
    core, first = CoreHarness(), 0
    core.topic(queue_count)
    for row_count, slice_rows_min in calls:
        core.publish(core.batch([b"%d" % (first + row) for row in range(row_count)]), slice_rows_min=slice_rows_min)
        first += row_count
    of_queues = [
        [int(row.message.body) for row in core.rows(MessageQueue("orders", "broker-a", n))] for n in range(queue_count)
    ]
    assert sorted(number for numbers in of_queues for number in numbers) == list(range(first))
    assert all(numbers == sorted(numbers) for numbers in of_queues)
