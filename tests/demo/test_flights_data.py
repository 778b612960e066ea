"""The flights as messages, and their summary."""

import json
from itertools import islice

import pyarrow as pa
import pytest

from demo.flights_data import FLIGHT_COUNT, KEYS, carrier_summary, messages, read_airlines, read_flights


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return read_flights()


def test_all_flights_are_read(flights: pa.Table) -> None:
    assert flights.num_rows == FLIGHT_COUNT
    assert flights["row"].to_pylist() == list(range(FLIGHT_COUNT))


def test_the_first_flight(flights: pa.Table) -> None:
    assert flights.slice(0, 1).to_pylist() == [
        {
            "row": 0, "year": 2013, "month": 1, "day": 1, "dep_time": 517, "sched_dep_time": 515, "dep_delay": 2,
            "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11, "carrier": "UA", "flight": 1545,
            "tailnum": "N14228", "origin": "EWR", "dest": "IAH", "air_time": 227, "distance": 1400, "hour": 5,
            "minute": 15, "time_hour": "2013-01-01T10:00:00Z",
        }
    ]  # fmt: skip


def test_what_is_not_known_is_null(flights: pa.Table) -> None:
    nulls = {name: flights[name].null_count for name in flights.column_names if flights[name].null_count}
    assert nulls == {
        "dep_time": 8255, "dep_delay": 8255, "arr_time": 8713, "arr_delay": 9430, "tailnum": 2512, "air_time": 9430
    }  # fmt: skip


def test_fewer_flights_are_the_first_ones(flights: pa.Table) -> None:
    assert read_flights(1_000) == flights.slice(0, 1_000).combine_chunks()


def test_a_message_holds_the_whole_flight(flights: pa.Table) -> None:
    some = flights.slice(838, 500)  # with cancelled flights
    (batch,) = messages(some)
    assert [json.loads(body) for body in batch["body"].to_pylist()] == some.to_pylist()


def test_the_carrier_is_the_tag_and_the_tail_number_the_only_key(flights: pa.Table) -> None:
    some = flights.slice(800, 1_000)
    (batch,) = messages(some)
    tails = some["tailnum"].to_pylist()
    assert None in tails
    assert batch["tags"].to_pylist() == some["carrier"].to_pylist()
    assert batch["keys"].to_pylist() == [[tail] if tail else [] for tail in tails]
    assert batch["keys"].type == KEYS


def test_messages_come_in_batches(flights: pa.Table) -> None:
    assert [batch.num_rows for batch in messages(flights.slice(0, 12_000))] == [5_000, 5_000, 2_000]
    (third,) = islice(messages(flights), 2, 3)
    assert json.loads(third["body"][0].as_py())["row"] == 10_000


def test_the_summary_of_every_carrier(flights: pa.Table) -> None:
    summary = {row["carrier"]: row for row in carrier_summary(flights).to_pylist()}
    assert len(summary) == 16
    assert list(summary) == sorted(summary)
    assert summary["UA"]["flights"] == 58_665
    assert summary["UA"]["dep_delay"] == pytest.approx(12.106072888459614)
    assert summary["UA"]["arr_delay"] == pytest.approx(3.5580111, abs=1e-6)
    assert sum(row["flights"] for row in summary.values()) == FLIGHT_COUNT


def test_every_carrier_has_a_name(flights: pa.Table) -> None:
    assert set(read_airlines()) == set(flights["carrier"].to_pylist())
