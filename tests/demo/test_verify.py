"""The checks pass for a correct result, and name each thing that is wrong."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from demo.checkpoint import MicroBatch
from demo.flights_data import carrier_summary, read_flights
from demo.verify import (
    carriers_agree,
    every_flight_once,
    every_offset_once,
    flights_unchanged,
    group_offsets_at_end,
    killed_batch_replayed,
    partitions_averaged,
)

FLIGHTS = read_flights(1_600)
QUEUES = 8
PER_QUEUE = 200
MAX_OFFSETS = dict.fromkeys(range(QUEUES), PER_QUEUE)
PARTITION = (0, 0, 0, 1, 1, 1, 2, 2)
BATCHES = [
    MicroBatch(n, dict.fromkeys(range(QUEUES), 50 * n), dict.fromkeys(range(QUEUES), 50 * n + 50)) for n in range(4)
]


def right_result() -> pa.Table:
    """A result over eight queues, as three partitions read them."""
    queues = [row % QUEUES for row in range(FLIGHTS.num_rows)]
    return (
        FLIGHTS.append_column("queueId", pa.array(queues, pa.int32()))
        .append_column("queueOffset", pa.array([row // QUEUES for row in range(FLIGHTS.num_rows)], pa.int64()))
        .append_column("tag", FLIGHTS["carrier"])
        .append_column("key", FLIGHTS["tailnum"])
        .append_column("partitionId", pa.array([PARTITION[queue] for queue in queues], pa.int32()))
    )


def with_column(found: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return found.set_column(found.schema.get_field_index(name), name, values)


RIGHT = right_result()
ONE_MISSING = pa.concat_tables([RIGHT.slice(0, 10), RIGHT.slice(11)])
ONE_TWICE = pa.concat_tables([RIGHT, RIGHT.slice(7, 1)])


def test_the_right_result_holds_in_any_order() -> None:
    found = RIGHT.sort_by([("tag", "ascending"), ("queueOffset", "descending")])
    checks = [
        every_flight_once(FLIGHTS, found),
        every_offset_once(MAX_OFFSETS, found),
        flights_unchanged(FLIGHTS, found),
        partitions_averaged(BATCHES, found),
        carriers_agree(carrier_summary(FLIGHTS), carrier_summary(found)),
    ]
    assert [check.mismatches for check in checks] == [[]] * 5
    assert all(check.holds for check in checks)


def test_a_missing_flight_is_named() -> None:
    assert every_flight_once(FLIGHTS, ONE_MISSING).mismatches == [
        "flights missing: 1 (B6 49 JFK-PBI on 1/1, row 10)",
        "1,599 rows, expected 1,600",
    ]
    assert every_offset_once(MAX_OFFSETS, ONE_MISSING).mismatches == [
        "queue 2: 1 offsets missing, 0 repeated, 0 beyond the end"
    ]


def test_a_repeated_flight_is_named() -> None:
    check = every_flight_once(FLIGHTS, ONE_TWICE)
    assert "flights there more than once: 1 (EV 5708 LGA-IAD on 1/1, row 7)" in check.mismatches
    assert every_offset_once(MAX_OFFSETS, ONE_TWICE).mismatches == [
        "queue 7: 0 offsets missing, 1 repeated, 0 beyond the end"
    ]


def test_a_missing_and_a_repeated_flight_are_both_found() -> None:
    swapped = pa.concat_tables([ONE_MISSING, RIGHT.slice(7, 1)])
    assert swapped.num_rows == FLIGHTS.num_rows
    assert len(every_flight_once(FLIGHTS, swapped).mismatches) == 2


def test_an_unknown_flight_is_named() -> None:
    more = read_flights(1_601)
    stranger = with_column(RIGHT.slice(0, 1), "row", more["row"].slice(1_600, 1))
    check = every_flight_once(FLIGHTS, pa.concat_tables([RIGHT, stranger]))
    assert check.mismatches == ["flights not in the file: 1 (row 1600)", "1,601 rows, expected 1,600"]


def test_a_result_without_rows_is_named() -> None:
    assert not every_flight_once(FLIGHTS, RIGHT.slice(0, 0)).holds
    assert len(every_offset_once(MAX_OFFSETS, RIGHT.slice(0, 0)).mismatches) == QUEUES


@pytest.mark.parametrize("name", ["dep_delay", "distance", "tag", "key", "time_hour"])
def test_a_changed_value_is_named(name: str) -> None:
    values = RIGHT[name].to_pylist()
    before, values[3] = values[3], None
    changed = with_column(RIGHT, name, pa.array(values, RIGHT.schema.field(name).type))
    assert flights_unchanged(FLIGHTS, changed).mismatches == [
        f"{name} differs in 1 rows, first in row 3: None, expected {before}"
    ]


def test_a_value_instead_of_a_null_is_named() -> None:
    filled = with_column(RIGHT, "dep_delay", pc.fill_null(RIGHT["dep_delay"], 0))
    (mismatch,) = flights_unchanged(FLIGHTS, filled).mismatches
    assert mismatch.startswith("dep_delay differs in ")
    assert mismatch.endswith(": 0, expected None")


def test_carriers_that_differ_are_named() -> None:
    wanted = carrier_summary(FLIGHTS)
    without_first = carrier_summary(RIGHT.filter(pc.not_equal(RIGHT["carrier"], "9E")))
    assert carriers_agree(wanted, without_first).mismatches == ["carrier 9E is not in the result"]
    assert carriers_agree(without_first, wanted).mismatches == ["carrier 9E is not in the file"]
    later = with_column(RIGHT, "dep_delay", pc.add(RIGHT["dep_delay"], 1))
    assert len(carriers_agree(wanted, carrier_summary(later)).mismatches) == wanted.num_rows
    (count,) = carriers_agree(wanted, carrier_summary(ONE_MISSING)).mismatches[:1]
    assert count.startswith("carrier B6: flights ")


def test_means_may_differ_by_the_order_of_a_sum() -> None:
    wanted = carrier_summary(FLIGHTS)
    nearly = with_column(wanted, "dep_delay", pc.multiply(wanted["dep_delay"], 1 + 1e-13))
    assert carriers_agree(wanted, nearly).holds


@pytest.mark.parametrize("committed", [None, 0, 199, 201])
def test_a_group_that_is_not_at_the_end_is_named(committed: int | None) -> None:
    check = group_offsets_at_end("demo", MAX_OFFSETS, {**MAX_OFFSETS, 5: committed})
    assert check.mismatches == [f"queue 5: consumer offset {committed}, max offset 200"]
    assert group_offsets_at_end("demo", MAX_OFFSETS, dict(MAX_OFFSETS)).holds


def test_queues_in_the_wrong_partition_are_named() -> None:
    moved = pc.if_else(pc.equal(RIGHT["queueId"], 2), pa.scalar(1, pa.int32()), RIGHT["partitionId"])
    check = partitions_averaged(BATCHES, with_column(RIGHT, "partitionId", moved))
    assert check.mismatches == [
        f"micro-batch {n}: partitions 0 1 | 2 3 4 5 | 6 7, expected 0 1 2 | 3 4 5 | 6 7" for n in range(4)
    ]


def test_a_queue_in_two_partitions_is_named() -> None:
    strays = pc.and_(pc.equal(RIGHT["queueId"], 6), pc.equal(RIGHT["queueOffset"], 120))
    moved = pc.if_else(strays, pa.scalar(0, pa.int32()), RIGHT["partitionId"])
    check = partitions_averaged(BATCHES, with_column(RIGHT, "partitionId", moved))
    assert check.mismatches == ["micro-batch 2: partitions 0 1 2 6 | 3 4 5 | 6 7, expected 0 1 2 | 3 4 5 | 6 7"]


def test_a_consumer_without_rows_has_no_partition() -> None:
    last = RIGHT.filter(pc.less(RIGHT["queueId"], 5))
    shifted = with_column(last, "partitionId", pc.add(last["partitionId"], 1))
    assert partitions_averaged(BATCHES, shifted).holds


def test_rows_of_no_micro_batch_are_named() -> None:
    assert partitions_averaged(BATCHES[:3], RIGHT).mismatches == [
        "queues 0 1 2 | 3 4 5 | 6 7 have rows that no micro-batch of the checkpoint covers"
    ]


def test_another_plan_after_the_kill_is_named() -> None:
    assert killed_batch_replayed(7, "a", "a").holds
    assert killed_batch_replayed(7, "a", "b").mismatches == ["planned until a, read until b"]
