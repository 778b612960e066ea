"""Messages that are lost before they are read: an error by default, reported and skipped with failOnDataLoss=false."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame

from pyspark_rmqpull.spark_releases.progress import parse_offset
from rmqpull_broker.core.model import MessageQueue
from tests.harness.server_kinds import needs
from tests.harness.servers import ManagedServer, StartServer
from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import WAIT_S, Queries, Topic

ORDERS = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def aging(start_server: StartServer) -> ManagedServer:
    """A server with the topic "orders" of one queue, which lists its topics."""
    return start_server({"orders": 1}, lists_topics=True, is_trimmed=True)


def send(server: ManagedServer, first: int, until: int, topic: str = "orders") -> None:
    server.send(topic, *(b"%03d" % number for number in range(first, until)))


def trim(server: ManagedServer, min_offset: int) -> None:
    """Deletes the messages below an offset, as retention does."""
    server.trim("orders", min_offset)


def orders(queries: Queries, server: ManagedServer, **options: str) -> DataFrame:
    return queries.stream(Topic("orders", server), **options)


def numbers(first: int, until: int) -> list[bytes]:
    return [b"%03d" % number for number in range(first, until)]


def test_a_query_that_has_lost_messages_ends_with_advice(queries: Queries, aging: ManagedServer) -> None:
    send(aging, 0, 4)
    queries.run(orders(queries, aging))
    send(aging, 4, 9)
    trim(aging, 6)
    with pytest.raises(
        StreamingQueryException, match=r"2 messages of queue orders/broker-a/0 .* failOnDataLoss to false"
    ):
        queries.run(orders(queries, aging))


def test_between_runs(queries: Queries, aging: ManagedServer, kind: str) -> None:
    """Acceptance case 54."""
    send(aging, 0, 4)
    options = {"failOnDataLoss": "false", "consumerGroup": "billing"}
    assert queries.run(orders(queries, aging, **options)).bodies == numbers(0, 4)
    send(aging, 4, 9)
    trim(aging, 6)
    again = queries.start(orders(queries, aging, **options))
    again.process_all()
    send(aging, 9, 12)
    again.process_all()
    assert again.bodies == numbers(6, 12)
    assert aging.consumer_offsets("billing", "orders")[ORDERS] >= 9
    last = [progress for progress in again.query.recentProgress if progress["numInputRows"]][-1]
    reported = parse_offset(last["sources"][0]["latestOffset"])
    lost = reported.get("latestOffset", reported).get("rowsLost")  # within the end on PySpark 4.0 and 4.1
    assert lost == ({"orders": {"broker-a": {"0": 2}}} if kind == "columns" else None)


def test_what_was_read_may_expire(queries: Queries, aging: ManagedServer) -> None:
    """Also the message before the query's offset, with which it would notice that history was rewritten."""
    send(aging, 0, 4)
    queries.run(orders(queries, aging))
    trim(aging, 4)
    send(aging, 4, 6)
    assert queries.run(orders(queries, aging)).bodies == numbers(4, 6)


@pytest.mark.parametrize("left", [7, 9])
def test_while_a_batch_is_read(queries: Queries, aging: ManagedServer, left: int) -> None:
    """Acceptance case 54."""
    send(aging, 0, 9)
    run = queries.run(orders(queries, aging, failOnDataLoss="false"), lambda _: trim(aging, left))
    assert run.bodies == numbers(left, 9)
    send(aging, 9, 11)
    assert queries.run(orders(queries, aging, failOnDataLoss="false")).bodies == numbers(9, 11)


def test_with_a_filter(queries: Queries, aging: ManagedServer) -> None:
    send(aging, 0, 9)
    options = {"failOnDataLoss": "true", "filterExpression": "nobody"}
    with pytest.raises(StreamingQueryException, match=r"[Mm]essages of queue .* are (gone|lost)"):
        queries.run(orders(queries, aging, **options), lambda _: trim(aging, 5))


def test_a_topic_that_is_deleted_while_a_batch_is_read(queries: Queries, aging: ManagedServer) -> None:
    send(aging, 0, 9)

    def delete(batch_id: int) -> None:
        if batch_id == 0:  # a client that still has the old route may plan one more
            aging.delete_topic("orders")

    assert queries.run(orders(queries, aging, failOnDataLoss="false"), delete).rows == []


def test_a_topic_that_is_created_again_while_a_batch_is_read(queries: Queries, aging: ManagedServer, kind: str) -> None:
    """Acceptance case 25. Without ids of topics the batch reads new messages instead, and the next reads them again."""
    send(aging, 0, 9)

    def create_again(batch_id: int) -> None:
        if batch_id == 0:
            aging.delete_topic("orders")
            aging.create_topic("orders", 1)
            send(aging, 20, 23)

    stream = orders(queries, aging, failOnDataLoss="false")
    first = queries.run(stream, create_again)
    send(aging, 23, 26)
    second = queries.run(stream)
    send(aging, 26, 29)
    third = queries.run(stream)
    read_early = [] if kind == "columns" else numbers(20, 23)
    assert [bytes(row["body"]) for row in first.batches[0]] == read_early
    assert sorted(first.bodies + second.bodies + third.bodies) == sorted(read_early + numbers(20, 29))


@needs("lists of topics")
def test_a_topic_is_deleted_while_another_is_created(queries: Queries, aging: ManagedServer) -> None:
    """Acceptance case 20."""
    send(aging, 0, 3)
    run = queries.start(orders(queries, aging, topicPattern="orders.*", failOnDataLoss="false"))
    run.process_all()
    aging.delete_topic("orders")
    aging.create_topic("orders-2", 1)
    send(aging, 3, 6, "orders-2")
    run.wait_until(lambda: len(run.rows) >= 6, "the new topic read")
    assert run.bodies == numbers(0, 6)


def test_a_topic_that_was_created_again_with_a_higher_end(queries: Queries, aging: ManagedServer, kind: str) -> None:
    """Acceptance case 22, and more.

    Without ids of topics, the query notices it by the last message that it has read.
    """
    send(aging, 0, 3)
    queries.run(orders(queries, aging, failOnDataLoss="false"))
    aging.delete_topic("orders")
    aging.create_topic("orders", 1)
    send(aging, 10, 15)
    again = queries.run(orders(queries, aging, failOnDataLoss="false"))
    assert again.bodies == numbers(10, 15)


def test_a_topic_that_was_created_again_with_a_lower_end(queries: Queries, aging: ManagedServer, kind: str) -> None:
    """Without ids of topics the query continues with the first message that may be new, and the error says so."""
    send(aging, 0, 9)
    queries.run(orders(queries, aging))
    aging.delete_topic("orders")
    aging.create_topic("orders", 1)
    send(aging, 20, 23)
    said = "with the earliest" if kind == "columns" else "with the first message that was stored at"
    with pytest.raises(StreamingQueryException, match=rf"failOnDataLoss to false .*; the query then continues {said}"):
        queries.run(orders(queries, aging))
    first = queries.run(orders(queries, aging, failOnDataLoss="false"))
    assert first.bodies == numbers(20, 23)
    send(aging, 23, 26)
    assert queries.run(orders(queries, aging, failOnDataLoss="false")).bodies == numbers(23, 26)


def test_an_unfinished_micro_batch_is_not_read_when_its_history_was_rewritten(
    queries: Queries, aging: ManagedServer
) -> None:
    """Spark starts it again before it plans anything."""
    send(aging, 0, 3)

    def fail(batch_id: int) -> None:
        raise RuntimeError("the sink is full")

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        queries.run(orders(queries, aging), fail)
    aging.delete_topic("orders")
    aging.create_topic("orders", 1)
    send(aging, 10, 15)
    begun: list[int] = []
    with pytest.raises(StreamingQueryException, match=r"different message at offset 2 .* that it has not finished"):
        queries.run(orders(queries, aging), begun.append)
    assert begun == []


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_batch_read_whose_messages_are_lost_after_planning(
    queries: Queries, aging: ManagedServer, goes_on: bool
) -> None:
    """Acceptance cases 51 and 54: a DataFrame that was used keeps its start; one that is loaded now has the new one."""
    send(aging, 0, 9)
    given = {"failOnDataLoss": str(not goes_on)}
    batch = queries.batch(Topic("orders", aging), **given)
    assert sorted(bytes(row["body"]) for row in batch.collect()) == numbers(0, 9)
    trim(aging, 6)
    if goes_on:
        assert sorted(bytes(row["body"]) for row in batch.collect()) == numbers(6, 9)
    else:
        with pytest.raises(PySparkException, match=r"[Mm]essages of queue .* are (gone|lost)"):
            batch.collect()
    again = queries.batch(Topic("orders", aging), **given)
    assert sorted(bytes(row["body"]) for row in again.collect()) == numbers(6, 9)


def cut_between_batches(server: ManagedServer) -> None:
    """The topic exists again, with fewer messages than a run had planned to read."""
    server.delete_topic("orders")
    server.create_topic("orders", 1)
    send(server, 0, 5)


@needs_spark("AvailableNow within limits")
@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda server: server.delete_topic("orders"),
            "DataLoss: Queue orders/broker-a/0 (no longer exists|ends at offset 0)",
        ),
        (
            cut_between_batches,
            "DataLoss: (Topic orders was deleted and|Queue orders/broker-a/0 has a different message at offset 2)",
        ),
    ],
)
def test_available_now_fails_if_planned_messages_are_lost(
    queries: Queries, aging: ManagedServer, change: Callable[[ManagedServer], None], sentence: str
) -> None:
    """Acceptance cases 12 and 13."""
    send(aging, 0, 9)
    taken: list[int] = []

    def take(batch: DataFrame, batch_id: int) -> None:
        taken.append(batch.count())
        change(aging)

    stream = orders(queries, aging, maxOffsetsPerTrigger="3")
    writer = stream.writeStream.foreachBatch(take).option("checkpointLocation", str(queries.checkpoint))
    with pytest.raises(StreamingQueryException, match=sentence):
        writer.trigger(availableNow=True).start().awaitTermination(WAIT_S)
    assert taken == [3]
