"""The group follows the query, on the broker or in its file. It is never ahead, whatever offset updates and resets
do.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from pyspark_rmqpull.options.progress import DERIVED_GROUP
from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.local_file import LocalFileOffsetStore
from tests.harness.server_kinds import COLUMNS, REQUESTS, needs
from tests.harness.servers import ManagedServer, StartServer
from tests.harness.spark_kinds import for_this_spark, needs_spark
from tests.harness.spark_queries import Queries, Topic, await_end
from tests.harness.waiting import WAIT_S

GROUP = "billing"


@pytest.fixture
def orders(start_server: StartServer) -> ManagedServer:
    """A server with the topic "orders" of three queues."""
    return start_server({"orders": 3})


def reading(spark: SparkSession, server: ManagedServer, **options: str) -> DataFrame:
    given = {**server.options, "startingOffsets": "earliest", "consumerGroup": GROUP} | options
    if "assign" not in given:
        given["topic"] = given.get("topic", "orders")
    return spark.readStream.format("rmqpull").options(**for_this_spark(given)).load()


def numbered(first: int, until: int) -> list[bytes]:
    return [b"%02d" % number for number in range(first, until)]


def committed(server: ManagedServer, group: str = GROUP) -> dict[int, int]:
    return {queue.queue_id: offset for queue, offset in server.consumer_offsets(group, "orders").items()}


def ends(server: ManagedServer) -> dict[int, int]:
    return {queue.queue_id: bounds.max_offset for queue, bounds in server.bounds("orders").items()}


# --- never ahead, and complete at the end -----------------------------------------------------------------------------


def test_a_failed_batch_sets_no_consumer_offsets_until_it_succeeds(
    queries: Queries, spark: SparkSession, orders: ManagedServer
) -> None:
    orders.send("orders", *numbered(0, 12))
    stream = reading(spark, orders, maxOffsetsPerTrigger="6")

    def fail(batch_id: int) -> None:
        if batch_id == 1:
            raise RuntimeError("the sink is full")

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        queries.run(stream, fail)
    assert committed(orders) == {0: 2, 1: 2, 2: 2}
    assert len(queries.run(stream).rows) == 6
    assert committed(orders) == ends(orders) == {0: 4, 1: 4, 2: 4}


@needs("faults")
@needs_spark("AvailableNow within limits")
def test_a_refused_offset_update_is_retried_and_complete_at_the_end(
    queries: Queries, spark: SparkSession, orders: ManagedServer, kind: str
) -> None:
    """After AvailableNow the group's offsets are those of the last batch (rules 7.2)."""
    orders.send("orders", *numbered(0, 12))
    rule = orders.broker.faults.fail(REQUESTS["set offsets"][kind], "INTERNAL_SERVER_ERROR", times=4)
    assert len(queries.run(reading(spark, orders, maxOffsetsPerTrigger="3")).rows) == 12
    assert [report.left for report in orders.broker.faults.reports() if report.rule_id == rule] == [0]
    assert committed(orders) == ends(orders)


@needs("faults")
def test_a_query_survives_lost_offset_updates_and_its_group_catches_up(
    queries: Queries, spark: SparkSession, orders: ManagedServer, kind: str
) -> None:
    rule = orders.broker.faults.drop(REQUESTS["set offsets"][kind], times=None)
    # An offset update that waited as long as any other request would exceed the time limit of this test. It waits 2 s,
    # and the next one comes four times as late: over the other protocols, the request's own shorter limit applies.
    timeout_ms = "3600000" if kind == COLUMNS else "1000"
    run = queries.start(reading(spark, orders, requestTimeoutMs=timeout_ms, idleWaitMs="50"))
    for first in (0, 3, 6):
        orders.send("orders", *numbered(first, first + 3))
        run.process_all()
    assert run.bodies == numbered(0, 9)
    assert committed(orders) == {}
    orders.broker.faults.remove(rule)
    run.wait_until(lambda: committed(orders) == ends(orders), "caught up")
    run.query.stop()


def test_once_leaves_its_batch_to_the_next_run(
    queries: Queries, spark: SparkSession, orders: ManagedServer, tmp_path: Path
) -> None:
    """Spark does not report the last batch of ``Trigger.Once`` (rules 7.2)."""
    stream = reading(spark, orders)
    found = []
    for first in (0, 3):
        orders.send("orders", *numbered(first, first + 3))
        writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        await_end(writer.trigger(once=True).start())
        found.append(committed(orders))
    assert found == [{}, {0: 1, 1: 1, 2: 1}]


# --- the group as a name ----------------------------------------------------------------------------------------------


def groups(server: ManagedServer) -> set[str]:
    return {GROUP, DERIVED_GROUP} & server.groups()


def test_with_commit_offsets_off_the_group_only_identifies_pulls(
    queries: Queries, spark: SparkSession, orders: ManagedServer
) -> None:
    """Acceptance case 26."""
    orders.send("orders", *numbered(0, 6))
    run = queries.run(reading(spark, orders, commitOffsets="false", maxOffsetsPerTrigger="3"))
    assert run.bodies == numbered(0, 6)
    assert groups(orders) == {GROUP}
    assert committed(orders) == {}


def test_without_a_group_a_derived_group_pulls_and_no_offsets_are_set(
    queries: Queries, spark: SparkSession, orders: ManagedServer
) -> None:
    """Acceptance case 26."""
    orders.send("orders", *numbered(0, 3))
    queries.run(queries.stream(Topic("orders", orders)))
    assert groups(orders) == {DERIVED_GROUP}
    assert committed(orders, DERIVED_GROUP) == {}


# --- resets -----------------------------------------------------------------------------------------------------------


def reset_to_the_begin(server: ManagedServer) -> None:
    server.reset_to_the_begin(GROUP, "orders")
    assert committed(server) == {0: 0, 1: 0, 2: 0}


def test_a_reset_of_its_group_does_not_move_a_running_query(
    queries: Queries, spark: SparkSession, orders: ManagedServer
) -> None:
    orders.send("orders", *numbered(0, 12))

    def reset(batch_id: int) -> None:
        if batch_id == 1:  # its tasks pull next and receive the reset
            reset_to_the_begin(orders)

    run = queries.run(reading(spark, orders, maxOffsetsPerTrigger="6"), reset)
    assert [len(batch) for batch in run.batches.values()] == [6, 6]
    assert run.bodies == numbered(0, 12)
    assert committed(orders) == ends(orders)


@needs("pending resets")
def test_a_reset_lasts_until_the_next_pull_has_received_it(
    queries: Queries, spark: SparkSession, orders: ManagedServer
) -> None:
    """Until then the broker accepts updates and ignores them (rules 3.5.1, row 6)."""
    orders.send("orders", *numbered(0, 6))
    stream = reading(spark, orders, idleWaitMs="0")  # a pull that waits would receive the reset
    queries.run(stream)
    reset_to_the_begin(orders)
    assert queries.run(stream).rows == []
    assert committed(orders) == {0: 0, 1: 0, 2: 0}
    orders.send("orders", *numbered(6, 9))
    assert queries.run(stream).bodies == numbered(6, 9)
    assert committed(orders) == ends(orders)


def test_a_reset_does_not_move_an_idle_query(queries: Queries, spark: SparkSession, orders: ManagedServer) -> None:
    orders.send("orders", *numbered(0, 6))
    run = queries.start(reading(spark, orders, idleWaitMs="50"))
    run.process_all()
    reset_to_the_begin(orders)
    run.process_all()
    orders.send("orders", *numbered(6, 9))
    run.process_all()
    run.process_all()
    run.query.stop()
    assert run.bodies == numbered(0, 9)
    assert committed(orders) == ends(orders)


# --- broadcasting -----------------------------------------------------------------------------------------------------


def test_the_file_of_a_broadcasting_group_serves_the_next_query_and_batches(
    queries: Queries, spark: SparkSession, orders: ManagedServer, tmp_path: Path
) -> None:
    options = {"messageModel": "BROADCASTING", "clientId": "me@DEFAULT", "localOffsetStoreDir": str(tmp_path)}
    file = LocalFileOffsetStore(str(tmp_path), "me@DEFAULT", GROUP)
    queues = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3)]
    orders.send("orders", *numbered(0, 6))
    queries.run(reading(spark, orders, **options))
    assert file.path == tmp_path / "me@DEFAULT" / GROUP / "offsets.json"
    assert file.get_offsets(queues) == dict.fromkeys(queues, 2)

    orders.send("orders", *numbered(6, 9))
    batch = queries.batch(Topic("orders", orders), consumerGroup=GROUP, startingOffsets="group", **options)
    assert sorted(bytes(row["body"]) for row in batch.collect()) == numbered(6, 9)
    assert file.get_offsets(queues) == dict.fromkeys(queues, 2)
    again = queries.with_new_checkpoint()
    assert again.run(reading(spark, orders, **options, startingOffsets="group")).bodies == numbered(6, 9)
    assert file.get_offsets(queues) == dict.fromkeys(queues, 3)
    assert committed(orders) == {}


# --- topics to come ---------------------------------------------------------------------------------------------------


@pytest.fixture
def has_been_missed(orders: ManagedServer, kind: str) -> Callable[[], bool]:
    """Whether the query has looked for a topic twice. One that does not wait would have given up after the first
    time.
    """
    faults = orders.broker.faults
    looks = faults.delay(REQUESTS["look for topics"][kind], 1, times=None)
    return lambda: next(report.injected for report in faults.reports() if report.rule_id == looks) >= 2


@needs("faults")
def test_a_stream_waits_for_its_topic(
    queries: Queries, spark: SparkSession, orders: ManagedServer, has_been_missed: Callable[[], bool]
) -> None:
    run = queries.start(reading(spark, orders, topic="refunds", waitForTopic="5m"))
    run.wait_until(has_been_missed, "looked for its topic")
    orders.create_topic("refunds", 1)
    orders.send("refunds", b"one")
    run.process_all()
    assert run.bodies == [b"one"]


@needs("faults")
def test_a_batch_waits_for_its_topic(
    queries: Queries, orders: ManagedServer, has_been_missed: Callable[[], bool]
) -> None:
    read = queries.batch(Topic("refunds", orders), waitForTopic="5m")
    has_ended = threading.Event()

    def create() -> None:
        while not has_been_missed():
            if has_ended.wait(0.02):
                return
        orders.create_topic("refunds", 1)

    creating = threading.Thread(target=create)
    creating.start()
    try:
        assert read.collect() == []
    finally:
        has_ended.set()
        creating.join(WAIT_S)


def test_a_topic_that_does_not_come_in_time_is_named(
    queries: Queries, spark: SparkSession, orders: ManagedServer
) -> None:
    sentence = r"Topic refunds does not exist .*The query waited 700 ms for it \(option waitForTopic\)\."
    with pytest.raises(StreamingQueryException, match=sentence):
        queries.run(reading(spark, orders, topic="refunds", waitForTopic="700ms"))


# --- single queues ----------------------------------------------------------------------------------------------------

QUEUES_0_AND_2 = json.dumps({"orders": {"broker-a": [0, 2]}})


@pytest.mark.parametrize("fail_on_data_loss", ["true", "false"])
def test_assigned_queues_from_their_ends(
    queries: Queries, spark: SparkSession, orders: ManagedServer, fail_on_data_loss: str
) -> None:
    """Acceptance case 2."""
    orders.send("orders", *numbered(0, 6))
    stream = reading(spark, orders, assign=QUEUES_0_AND_2, startingOffsets="latest", failOnDataLoss=fail_on_data_loss)
    run = queries.start(stream)
    run.process_all()
    orders.send("orders", *numbered(6, 12))
    run.process_all()
    run.query.stop()
    assert run.bodies == [b"06", b"08", b"09", b"11"]


def test_assigned_queues_from_their_start_and_after_a_restart(
    queries: Queries, spark: SparkSession, orders: ManagedServer
) -> None:
    """Acceptance case 3."""
    orders.send("orders", *numbered(0, 6))
    stream = reading(spark, orders, assign=QUEUES_0_AND_2)
    run = queries.start(stream)
    run.process_all()
    run.query.stop()
    assert run.bodies == [b"00", b"02", b"03", b"05"]
    orders.send("orders", *numbered(6, 12))
    assert queries.run(stream).bodies == [b"06", b"08", b"09", b"11"]
    assert committed(orders) == {0: 4, 2: 4}
