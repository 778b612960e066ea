"""How much a micro-batch reads: limits of messages and of bytes, and waiting for enough messages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql.functions import spark_partition_id

from tests.harness.server_kinds import STANDARD, needs
from tests.harness.servers import ManagedServer, StartServer
from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import Queries, QueryRun, Topic, await_end

INT64_MAX = str(2**63 - 1)
QUEUES = ("big", "middle", "small")
"""Three topics of one queue each, so that each queue has a name of its own."""


@pytest.fixture
def served(start_server: StartServer) -> ManagedServer:
    return start_server(dict.fromkeys(QUEUES, 1))


@pytest.fixture
def three(served: ManagedServer) -> Topic:
    """All three topics."""
    return Topic(",".join(QUEUES), served)


def send(server: ManagedServer, big: int = 0, middle: int = 0, small: int = 0) -> None:
    for name, count in zip(QUEUES, (big, middle, small), strict=True):
        server.send(name, *[b"0123456789"] * count)


def taken(run: QueryRun) -> list[tuple[int, ...]]:
    """Returns the number of messages of each queue in each batch."""
    counts = [Counter(row["topic"] for row in batch) for batch in run.batches.values()]
    return [tuple(count[name] for name in QUEUES) for count in counts]


def sizes(batches: Iterator[Sequence[Row]]) -> list[list[int]]:
    return [[len(row["body"]) for row in batch] for batch in batches]


def places(rows: Sequence[Row]) -> list[tuple[str, int]]:
    return sorted((row["topic"], row["queueOffset"]) for row in rows)


def all_places(big: int, middle: int, small: int) -> list[tuple[str, int]]:
    counts = zip(QUEUES, (big, middle, small), strict=True)
    return [(name, offset) for name, count in counts for offset in range(count)]


def test_case_14_a_limit_is_shared_among_queues_also_after_a_restart_and_not_by_once(
    queries: Queries, served: ManagedServer, three: Topic
) -> None:
    send(served, 101, 11, 1)
    stream = queries.stream(three, maxOffsetsPerTrigger="10", idleWaitMs="100")
    run = queries.start(stream)
    run.wait_until(lambda: len(run.batches) >= 2, "two batches")
    run.query.stop()
    assert taken(run)[:2] == [(8, 1, 1), (9, 1, 0)]

    restarted = queries.start(stream)
    restarted.wait_until(lambda: len(restarted.batches) >= 2, "two batches")
    restarted.query.stop()
    assert {sum(each) for each in taken(restarted)} <= {9, 10}

    batches: list[list[Row]] = []
    new = queries.with_new_checkpoint()
    everything = queries.stream(three, maxOffsetsPerTrigger="10", trigger="once")
    writer = everything.writeStream.foreachBatch(lambda batch, _: batches.append(batch.collect()))
    await_end(writer.option("checkpointLocation", str(new.checkpoint)).trigger(once=True).start())
    assert [places(batch) for batch in batches] == [all_places(101, 11, 1)]


def test_case_15_a_batch_waits_for_enough_messages(queries: Queries, served: ManagedServer, three: Topic) -> None:
    limits = {"minOffsetsPerTrigger": "15", "idleWaitMs": "100"}
    send(served, 5, 3, 1)
    run = queries.start(queries.stream(three, maxTriggerDelay="1h", **limits))
    run.wait_until(lambda: len(run.batches) == 1, "one batch")  # the first batch always runs
    send(served, 2, 2, 2)
    for _ in range(3):
        run.process_all()
    assert taken(run) == [(5, 3, 1)]
    send(served, 4, 4, 4)
    run.wait_until(lambda: len(run.batches) == 2, "two batches")
    run.query.stop()
    assert sum(taken(run)[1]) >= 15

    run = queries.start(queries.stream(three, maxTriggerDelay="1s", **limits))
    send(served, 10)
    run.wait_until(lambda: ("big", 20) in places(run.rows), "all taken")  # fewer than 15, because of the delay
    run.query.stop()


def test_case_16_min_max_and_delay_together(queries: Queries, served: ManagedServer, three: Topic) -> None:
    limits = {"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "20", "idleWaitMs": "100"}
    send(served, 12, 9, 9)
    run = queries.start(queries.stream(three, maxTriggerDelay="1h", **limits))
    run.wait_until(lambda: len(run.batches) == 1, "one batch")
    for _ in range(3):
        run.process_all()
    assert taken(run) == [(8, 6, 6)]  # ten are left, too few
    send(served, 3, 3, 3)
    run.wait_until(lambda: len(run.batches) == 2, "two batches")
    run.query.stop()
    assert 15 <= sum(taken(run)[1]) <= 20

    rest = queries.start(queries.stream(three, maxTriggerDelay="1s", **limits))

    def all_rows() -> list[Row]:
        """Returns the rows by batch. A batch that Spark had not logged as finished runs again unchanged."""
        return [row for batch in (run.batches | rest.batches).values() for row in batch]

    rest.wait_until(lambda: len(all_rows()) == 39, "all taken")
    rest.query.stop()
    assert places(all_rows()) == all_places(15, 12, 12)


LARGEST = {"maxOffsetsPerTrigger": INT64_MAX, "minOffsetsPerTrigger": INT64_MAX}


@pytest.mark.parametrize(
    "limits",
    [
        LARGEST,
        pytest.param(
            LARGEST | {"maxBytesPerTrigger": INT64_MAX, "maxBytesPerPartition": INT64_MAX}, marks=needs("sizes")
        ),
    ],
)
def test_case_17_the_largest_limits_take_everything(
    queries: Queries, served: ManagedServer, three: Topic, limits: dict[str, str]
) -> None:
    send(served, 101, 11, 1)
    run = queries.run(queries.stream(three, **limits))
    assert taken(run) == [(101, 11, 1)]


def test_case_18_a_limited_source_without_messages_does_not_affect_the_other(
    queries: Queries, served: ManagedServer, three: Topic
) -> None:
    options = {"maxOffsetsPerTrigger": "1", "idleWaitMs": "0"}
    big, small = (queries.stream(replace(three, name=name), **options) for name in ("big", "small"))
    both = big.union(small)
    send(served, big=2, small=1)
    run = queries.start(both)
    run.process_all()
    send(served, big=1)
    run.process_all()
    run.query.stop()
    assert taken(run) == [(1, 0, 1), (1, 0, 0), (1, 0, 0)]

    restarted = queries.start(both)
    send(served, small=1)
    restarted.process_all()
    send(served, big=1)
    restarted.process_all()
    restarted.query.stop()
    assert taken(restarted) == [(0, 0, 1), (1, 0, 0)]


@pytest.fixture
def uneven(served: ManagedServer) -> ManagedServer:
    """Bodies of many sizes. Two are larger than the limit of the tests."""
    served.send("big", *[bytes(size) for size in (10, 10, 25, 1_000, 1, 1, 28, 30, 7)])
    served.send("middle", *[bytes(5)] * 20)
    served.send("small", bytes(2_000))
    return served


def fits(held: Sequence[int], most: int) -> bool:
    return sum(held) <= most or len(held) == 1


@needs("sizes")
def test_batches_stay_within_bytes_and_a_larger_message_gets_its_own(
    queries: Queries, uneven: ManagedServer, three: Topic
) -> None:
    """A message larger than maxBytesPerTrigger must still be read."""
    run = queries.run(queries.stream(three, maxBytesPerTrigger="30"))
    held = sizes(iter(run.batches.values()))
    assert all(fits(batch, 30) for batch in held)
    assert {(1_000,), (2_000,)} <= set(map(tuple, held))
    assert places(run.rows) == all_places(9, 20, 1)


@needs("sizes")
@needs_spark("AvailableNow within limits")
def test_available_now_keeps_every_limit_and_reads_everything(
    queries: Queries, uneven: ManagedServer, three: Topic
) -> None:
    limits = {"minOffsetsPerTrigger": "4", "maxOffsetsPerTrigger": "4", "maxBytesPerTrigger": "40b"}
    run = queries.run(queries.stream(three, maxTriggerDelay="1h", **limits))
    held = sizes(iter(run.batches.values()))
    assert all(len(batch) <= 4 and fits(batch, 40) for batch in held)
    assert places(run.rows) == all_places(9, 20, 1)


@needs("sizes")
@pytest.mark.parametrize("limits", [{}, {"maxRecordsPerPartition": "3"}, {"minPartitions": "20", "numPartitions": "1"}])
def test_tasks_of_batches_and_streams_stay_within_bytes(
    queries: Queries, uneven: ManagedServer, three: Topic, limits: dict[str, str]
) -> None:
    given = {"maxBytesPerPartition": "30"} | limits
    read = queries.batch(three, **given).withColumn("partition", spark_partition_id()).collect()
    streamed = queries.run(queries.stream(three, **given).withColumn("partition", spark_partition_id())).rows
    for rows in (read, streamed):
        partitions = [[row for row in rows if row["partition"] == each] for each in {row["partition"] for row in rows}]
        assert len(partitions) > 8
        assert all(fits(held, 30) for held in sizes(iter(partitions)))
        assert all(len(part) <= int(limits.get("maxRecordsPerPartition", 99)) for part in partitions)
        assert places(rows) == all_places(9, 20, 1)


@pytest.mark.parametrize("kind", [STANDARD])
def test_a_server_that_does_not_tell_sizes_is_refused_with_advice(queries: Queries, three: Topic) -> None:
    advice = "it lacks CutRanges of rmqpull.v1.*Limit the number of messages instead, with maxOffsetsPerTrigger"
    with pytest.raises(StreamingQueryException, match=advice):
        queries.run(queries.stream(three, maxBytesPerTrigger="1m"))
    with pytest.raises(Exception, match=advice):
        queries.batch(three, maxBytesPerPartition="1m").collect()
