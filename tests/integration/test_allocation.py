"""Which Spark partition reads which queue, and how ranges are split."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import spark_partition_id

from tests.harness.servers import ManagedServer, StartServer
from tests.harness.spark_queries import Queries, Topic
from tests.harness.start_servers import GetClusters, run_servers

ROOMS = ("room1@broker-a", "room2@broker-b")


@pytest.fixture(scope="module")
def served(kind: str, get_clusters: GetClusters) -> Iterator[ManagedServer]:
    """A server with topic T of eight queues, each with five messages, and topic "single" of one."""
    with run_servers(kind, get_clusters) as start_server:
        server = start_server({"T": 8, "single": 1})
        server.send("T", *[b"x"] * 40)
        server.send("single", *[b"x"] * 12)
        yield server


@pytest.fixture
def eight(served: ManagedServer) -> Topic:
    return Topic("T", served)


@pytest.fixture
def single(served: ManagedServer) -> Topic:
    return Topic("single", served)


def placed(stream: DataFrame) -> DataFrame:
    return stream.select("brokerName", "queueId", "queueOffset", spark_partition_id().alias("partition"))


def offsets_by_partition(rows: Sequence[Row]) -> list[dict[tuple[str, int], list[int]]]:
    """Returns the offsets of each queue in the order of the rows, by partition."""
    found: dict[int, dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        found[row["partition"]][row["brokerName"], row["queueId"]].append(row["queueOffset"])
    return [dict(found[partition]) for partition in sorted(found)]


def queues_by_partition(rows: Sequence[Row]) -> list[str]:
    """Describes partitions: ``0 1 2`` reads queues 0, 1 and 2."""
    return [" ".join(str(queue_id) for _, queue_id in sorted(mine)) for mine in offsets_by_partition(rows)]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"numPartitions": "3"}, ["0 1 2", "3 4 5", "6 7"]),
        ({"numPartitions": "3", "allocateStrategy": "AVG_BY_CIRCLE"}, ["0 3 6", "1 4 7", "2 5"]),
        (
            {"allocateStrategy": "CONSISTENT_HASH", "consumerIds": "CID-0,CID-1,CID-2"},
            ["3 4", "1 5 7", "0 2 6"],
        ),
        (
            {
                "allocateStrategy": "CONFIG",
                "messageQueueList": '[{"T":{"broker-a":[7,0]}},{"T":{"broker-a":[1,2,3,4,5]}}]',
            },
            ["0 7", "1 2 3 4 5"],
        ),
        (
            {
                "allocateStrategy": "BACKLOG",
                "numPartitions": "2",
                "startingOffsets": json.dumps({"T": {"broker-a": {"0": 0, "1": 3, "2": 3, "7": 4}}}),
            },
            ["0", "1 2 7"],
        ),
    ],
    ids=lambda value: value.get("allocateStrategy", "AVG") if isinstance(value, dict) else "",
)
def test_the_strategy_allocates_queues_to_partitions(
    queries: Queries, eight: Topic, given: dict[str, str], expected: list[str]
) -> None:
    assert queues_by_partition(queries.run(placed(queries.stream(eight, **given))).rows) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {"allocateStrategy": "MACHINE_ROOM", "consumeridcs": "room1", "numPartitions": "2"},
            [{(ROOMS[0], 0), (ROOMS[0], 1)}, {(ROOMS[0], 2), (ROOMS[0], 3)}],
        ),
        (
            {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "room1@A,room1@B,room2@C"},
            [
                {(ROOMS[0], 0), (ROOMS[0], 1)},
                {(ROOMS[0], 2), (ROOMS[0], 3)},
                {(ROOMS[1], queue_id) for queue_id in range(4)},
            ],
        ),
    ],
    ids=lambda value: value["allocateStrategy"] if isinstance(value, dict) else "",
)
def test_rooms_are_those_of_brokers_and_consumers(
    queries: Queries, start_server: StartServer, given: dict[str, str], expected: list[set[Any]]
) -> None:
    server = start_server({"T": 4}, brokers=ROOMS)
    server.send("T", *[b"x"] * 16)
    rows = queries.run(placed(queries.stream(Topic("T", server), **given))).rows
    assert [set(mine) for mine in offsets_by_partition(rows)] == expected


def test_planning_a_batch_again_gives_the_same_batch(queries: Queries, eight: Topic) -> None:
    """Each scan of a union plans its own batch (acceptance case 27)."""
    given = {"allocateStrategy": "BACKLOG", "numPartitions": "3", "maxRecordsPerPartition": "4"}
    stream = queries.stream(eight, **given)
    partitions = offsets_by_partition(queries.run(placed(stream.union(stream))).rows)
    half = len(partitions) // 2
    assert partitions[:half] == partitions[half:]
    assert sum(len(offsets) for mine in partitions[:half] for offsets in mine.values()) == 40


def test_case_31_queues_are_split_to_reach_the_number_of_partitions(queries: Queries, eight: Topic) -> None:
    stream = queries.stream(eight, numPartitions="4", minPartitions="12")
    rows = queries.run(placed(stream)).rows
    partitions = offsets_by_partition(rows)
    assert len(partitions) == 12
    assert all(offsets == sorted(offsets) for mine in partitions for offsets in mine.values())
    assert Counter((row["queueId"], row["queueOffset"]) for row in rows) == Counter(
        (queue_id, offset) for queue_id in range(8) for offset in range(5)
    )


def test_a_batch_read_is_cut_too(queries: Queries, eight: Topic) -> None:
    """Acceptance case 53."""
    whole, cut = (
        placed(queries.batch(eight, numPartitions="4", minPartitions=least)).collect() for least in ("1", "12")
    )
    assert [len(offsets_by_partition(rows)) for rows in (whole, cut)] == [4, 12]
    assert sorted(row[:3] for row in cut) == sorted(row[:3] for row in whole)
    assert len(cut) == 40


@pytest.mark.parametrize(
    ("given", "sizes"),
    [
        ({}, [12]),
        ({"minPartitions": "1"}, [12]),
        ({"minPartitions": "4"}, [3, 3, 3, 3]),
        ({"maxRecordsPerPartition": "5"}, [4, 4, 4]),
    ],
    ids=lambda value: next(iter(value), "unset") + next(iter(value.values()), "") if isinstance(value, dict) else "",
)
def test_case_32_several_tasks_read_one_queue(
    queries: Queries, single: Topic, given: dict[str, str], sizes: list[int]
) -> None:
    rows = queries.run(placed(queries.stream(single, **given))).rows
    assert [len(offsets) for mine in offsets_by_partition(rows) for offsets in mine.values()] == sizes
