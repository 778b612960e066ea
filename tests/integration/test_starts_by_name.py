"""A topic by name, by pattern or by queue, from each kind of start, while queues are added (rules 8.6, 8.7)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

import pytest
from pyspark.sql import DataFrame, Row
from pyspark.sql.functions import lit

from tests.harness.server_kinds import needs
from tests.harness.servers import ManagedServer, StartServer
from tests.harness.spark_queries import Queries

Place = tuple[int, int]
BY_NAME, BY_PATTERN, ASSIGNED = (
    {"topic": "orders"},
    {"topicPattern": "ord.*s"},
    {"assign": json.dumps({"orders": {"broker-a": [0, 1]}})},
)


@pytest.fixture
def growing(start_server: StartServer) -> ManagedServer:
    """A server with the topic "orders" of two queues, which lists its topics."""
    return start_server({"orders": 2}, lists_topics=True)


def reading(queries: Queries, server: ManagedServer, chosen: dict[str, str], **starting: str) -> DataFrame:
    options = {**server.options, **chosen, **starting}
    return queries.session.readStream.format("rmqpull").options(**options).load()


def send(server: ManagedServer, count: int) -> None:
    """Sends so many messages, to the queues in turn."""
    server.send("orders", *[b"x"] * count)


def times_of(server: ManagedServer) -> list[int]:
    """Returns the times at which the messages were stored."""
    return sorted(row.store_timestamp_ms for rows in server.messages("orders").values() for row in rows)


def places(rows: Sequence[Row]) -> list[Place]:
    """Returns queue id and offset of every row."""
    return sorted((row["queueId"], row["queueOffset"]) for row in rows)


def stored_from(server: ManagedServer, start_ms: int = 0) -> list[Place]:
    """Returns the offsets of the messages that were stored at a time or later."""
    return sorted(
        (queue.queue_id, row.queue_offset)
        for queue, rows in server.messages("orders").items()
        for row in rows
        if row.store_timestamp_ms >= start_ms
    )


def test_from_latest_and_with_added_queues(queries: Queries, growing: ManagedServer) -> None:
    """Acceptance case 7."""
    send(growing, 4)
    old = stored_from(growing)
    run = queries.start(reading(queries, growing, BY_NAME))
    run.process_all()
    send(growing, 2)
    run.process_all()
    growing.create_topic("orders", 4)
    send(growing, 8)
    # A route is asked for again after a while (rules 1.3), so the first batch may not know of the new queues.
    run.wait_until(lambda: len(run.rows) >= 10, "the new queues read")
    run.process_all()  # so that the batch is finished too
    run.query.stop()
    assert places(run.rows) == sorted(set(stored_from(growing)) - set(old))
    assert {(2, 0), (3, 0)} <= set(places(run.rows))

    before = stored_from(growing)
    send(growing, 4)
    again = queries.run(reading(queries, growing, BY_NAME))
    assert places(again.rows) == sorted(set(stored_from(growing)) - set(before))


@pytest.mark.parametrize(
    ("chosen", "queues_read"),
    [
        (BY_NAME, {0, 1, 2, 3}),
        pytest.param(BY_PATTERN, {0, 1, 2, 3}, marks=needs("lists of topics")),
        (ASSIGNED, {0, 1}),
    ],
    ids=["name", "pattern", "queues"],
)
def test_from_every_other_start_and_with_added_queues(
    queries: Queries, growing: ManagedServer, chosen: dict[str, str], queues_read: set[int]
) -> None:
    """Acceptance cases 3 to 6, 8 and 9. One query has a source for each kind of start."""
    send(growing, 12)
    times = times_of(growing)
    early, middle = times[3], times[6]
    starts = {
        "earliest": {"startingOffsets": "earliest"},
        "offsets": {"startingOffsets": json.dumps({"orders": {"broker-a": {"0": 4, "1": "earliest"}}})},
        "times": {"startingOffsetsByTimestamp": json.dumps({"orders": {"broker-a": {"0": early, "1": middle}}})},
        "time": {"startingTimestamp": str(middle)},
    }

    def all_of_them() -> DataFrame:
        streams = [
            reading(queries, growing, chosen, startingOffsetsByTimestampStrategy="latest", **starting)
            .select("queueId", "queueOffset")
            .withColumn("start", lit(name))
            for name, starting in starts.items()
        ]
        return reduce(DataFrame.union, streams)

    assert by_start(queries.run(all_of_them()).rows) == {
        "earliest": stored_from(growing),
        "offsets": [place for place in stored_from(growing) if place >= (0, 4)],
        "times": sorted(
            [place for place in stored_from(growing, early) if place[0] == 0]
            + [place for place in stored_from(growing, middle) if place[0] == 1]
        ),
        "time": stored_from(growing, middle),
    }

    before = stored_from(growing)
    growing.create_topic("orders", 4)
    send(growing, 8)
    added = sorted(place for place in set(stored_from(growing)) - set(before) if place[0] in queues_read)
    assert {queue_id for queue_id, _ in added} == queues_read
    assert by_start(queries.run(all_of_them()).rows) == dict.fromkeys(starts, added)


def by_start(rows: Sequence[Row]) -> dict[str, list[Place]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["start"]].append(row)
    return {start: places(mine) for start, mine in found.items()}
