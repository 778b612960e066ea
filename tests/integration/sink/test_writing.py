"""Spark writes rows to every kind of server, and reads them back (docs/acceptance.md)."""

from __future__ import annotations

import contextlib
import datetime
import os
from pathlib import Path

import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, lit, struct, to_json

from processes.process_table import Process, list_descendants, read_command_line
from processes.spark import WORKER, kind_of
from rmqpull_broker.core.model import Message, TopicType
from tests.harness.server_kinds import APACHE, PROXY, STAGES, STANDARD, make_params, needs
from tests.harness.spark_queries import await_end
from tests.harness.spark_sink import ServeSink
from tests.harness.waiting import wait_until

# One server of each way to send.
ONE_OF_EACH = pytest.mark.parametrize("kind", make_params([STAGES, STANDARD, APACHE, PROXY]))
MAP = "MAP<STRING,STRING>"


def own(properties: dict[str, str]) -> dict[str, str]:
    """The properties without the ids of an at-least-once write."""
    return {name: text for name, text in properties.items() if not name.startswith("rmqpull")}


def test_each_row_goes_to_its_topic(serve: ServeSink) -> None:
    """Acceptance case 62."""
    sink = serve({"orders": 1, "payments": 1})
    rows = [("orders", "1"), ("payments", "2"), ("orders", "3")]
    sink.write(sink.rows("topic STRING, body STRING", *rows))
    assert (sorted(sink.bodies("orders")), sink.bodies("payments")) == ([b"1", b"3"], [b"2"])


def test_option_topic_comes_before_the_column(serve: ServeSink) -> None:
    """Acceptance cases 63 and 64."""
    sink = serve({"orders": 1, "payments": 1})
    sink.write(sink.rows("body STRING", ("1",)), topic="orders")
    sink.write(sink.rows("topic STRING, body STRING", ("payments", "2"), (None, "3")), topic="orders")
    assert (sorted(sink.bodies("orders")), sink.bodies("payments")) == ([b"1", b"2", b"3"], [])


@pytest.mark.parametrize("body", [b"\x00\xff", "é"])
def test_all_columns_are_read_back(serve: ServeSink, body: bytes | str) -> None:
    """Acceptance case 71: one property, several, none."""
    sink = serve()
    kind = "STRING" if isinstance(body, str) else "BINARY"
    rows = [
        (body, "a", ["k1", "k2"], {"one": "1"}),
        (body, "b", ["k"], {"one": "1", "two": "2"}),
        (body, None, None, None),
    ]
    sink.write(sink.rows(f"body {kind}, tags STRING, keys ARRAY<STRING>, properties {MAP}", *rows), topic="orders")
    read = {row["tags"]: (bytes(row["body"]), row["keys"], own(row["properties"])) for row in sink.read("orders")}
    sent = body.encode() if isinstance(body, str) else body
    assert read == {
        "a": (sent, ["k1", "k2"], {"one": "1"}),
        "b": (sent, ["k"], {"one": "1", "two": "2"}),
        None: (sent, None, {}),
    }


def test_a_stream_is_written_and_its_progress_has_the_number_of_rows(serve: ServeSink) -> None:
    """Acceptance case 69; and 62 and 63 for streams."""
    sink = serve({"orders": 3, "copies": 2, "others": 1})
    sink.server.send("orders", b"1", b"2", b"3", b"4")
    rows = sink.stream("orders").selectExpr("body", "IF(body = '2', 'others', 'copies') AS topic")
    query = sink.run(rows)
    assert (sorted(sink.bodies("copies")), sink.bodies("others")) == ([b"1", b"3", b"4"], [b"2"])
    assert sum(progress.sink.numOutputRows for progress in query.recentProgress) == 4
    sink.server.send("orders", b"5")
    sink.run(rows)
    assert sorted(sink.bodies("copies")) == [b"1", b"3", b"4", b"5"]


@ONE_OF_EACH
def test_a_skipped_row_counts_in_the_progress_too(serve: ServeSink) -> None:
    """Acceptance case 69: Spark counts what it gives to the sink, and a Python sink cannot correct it."""
    sink = serve({"orders": 1, "copies": 1})
    sink.server.send("orders", b"1", b"2", b"3")
    rows = sink.stream("orders").selectExpr("IF(body = '2', NULL, body) AS body")
    query = sink.run(rows, topic="copies", onInvalidRow="skip")
    assert sorted(sink.bodies("copies")) == [b"1", b"3"]
    assert sum(progress.sink.numOutputRows for progress in query.recentProgress) == 3


def workers() -> list[int]:
    """The Python processes that run tasks of this process's Spark."""
    return [pid for pid in list_descendants(os.getpid()) if kind_of(read_command_line(pid)) == WORKER]


def forget_peaks() -> None:
    for pid in workers():
        with contextlib.suppress(OSError):
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_mib() -> int:
    """The most memory that one of them has used since then."""
    peaks = [0]
    for pid in workers():
        with contextlib.suppress(OSError):
            peaks.append(Process(pid).peak_resident_bytes() >> 20)
    return max(peaks)


LARGE, LARGE_COUNT = 100_000, 1_500


@ONE_OF_EACH
def test_many_large_rows_pass_through_little_memory(serve: ServeSink) -> None:
    """Acceptance case 70: a task of 143 MiB takes less than half of it."""
    sink = serve({"orders": 2})
    rows = sink.spark.range(0, LARGE_COUNT, 1, 1).selectExpr(f"repeat(CAST(id % 10 AS STRING), {LARGE}) AS body")
    options = {"topic": "orders", "batchBytes": "65536", "inFlight": "2", "compressMsgBodyOverHowmuch": "0"}
    sink.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10")  # what Spark gives at once
    try:
        sink.write(rows.limit(1), **options)
        forget_peaks()
        before = peak_mib()
        sink.write(rows, **options)
        after = peak_mib()
    finally:
        sink.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert after - before < LARGE * LARGE_COUNT // 2 >> 20, (before, after)
    bodies = sink.bodies("orders")
    assert [len(bodies), {len(body) for body in bodies}] == [1 + LARGE_COUNT, {LARGE}]


def test_large_bodies_are_compressed_and_read_back_unpacked(serve: ServeSink) -> None:
    sink = serve()
    sink.write(sink.rows("body STRING", ("x" * 10_000,)), topic="orders")
    assert [len(body) < 1_000 for body in sink.bodies("orders")] == [True]
    assert [bytes(row["body"]) for row in sink.read("orders")] == [b"x" * 10_000]


@needs("choice of queues")
def test_the_queue_of_a_row_has_priority_over_its_group(serve: ServeSink) -> None:
    """Acceptance case 72: the queue columns decide, then the message group, then the queues in turn."""
    sink = serve({"orders": (3, TopicType.FIFO)}, brokers=["broker-a", "broker-b"])
    rows = [(f"{n}", f"g{n}", "broker-b", 2) for n in range(5)] + [("in group", "g", None, None)] * 5
    columns = "body STRING, messageGroup STRING, brokerName STRING, queueId INT"
    sink.write(sink.rows(columns, *rows), topic="orders", queueSelector="explicit")
    queues = {(row["messageGroup"], row["brokerName"], row["queueId"]) for row in sink.read("orders")}
    assert {queue[1:] for queue in queues if queue[0] != "g"} == {("broker-b", 2)}
    assert len([queue for queue in queues if queue[0] == "g"]) == 1


@needs("turns row by row")
def test_by_default_queues_take_turns_and_the_queue_columns_are_ignored(serve: ServeSink) -> None:
    """Acceptance case 72."""
    sink = serve({"orders": 4})
    rows = [("x", "broker-a", 0)] * 8
    sink.write(sink.rows("body STRING, brokerName STRING, queueId INT", *rows), topic="orders")
    assert [bounds.max_offset for bounds in sink.server.bounds("orders").values()] == [2, 2, 2, 2]


@needs("stages")
def test_an_option_puts_many_rows_of_a_request_into_one_queue(serve: ServeSink) -> None:
    sink = serve({"orders": 4})
    rows = sink.rows("body STRING", *[("x",)] * 8).coalesce(1)
    sink.write(rows, topic="orders", minRecordsPerQueue="3")
    assert sorted(bounds.max_offset for bounds in sink.server.bounds("orders").values()) == [0, 0, 4, 4]
    sink.write(rows, topic="orders", minRecordsPerQueue="4")
    assert [bounds.max_offset for bounds in sink.server.bounds("orders").values()] == [4, 4, 4, 4]


@needs("stages")
def test_a_large_write_has_parts_of_1024_rows(serve: ServeSink) -> None:
    """The first request of 2,048 rows goes to both queues, as there are no more than 1,024 rows for each."""
    sink = serve({"orders": 2})
    sink.spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "1024")
    try:
        # Each batch fills a request, as two have more bytes than one may have.
        rows = sink.spark.range(3 * 1024, numPartitions=1).select(lit("x" * 200).alias("body"))
        sink.write(rows, topic="orders", batchBytes=str(300 << 10))
    finally:
        sink.spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert sorted(bounds.max_offset for bounds in sink.server.bounds("orders").values()) == [1_024, 2_048]


@ONE_OF_EACH
def test_many_rows_are_spread_over_all_queues(serve: ServeSink) -> None:
    """Over the remoting protocol, batches take turns."""
    sink = serve({"orders": 4})
    rows = sink.rows("body STRING", *[("x" * 500,)] * 80)
    sink.write(rows, topic="orders", batchBytes="1024", compressMsgBodyOverHowmuch="0")
    ends = [bounds.max_offset for bounds in sink.server.bounds("orders").values()]
    assert sum(ends) == 80
    assert max(ends) - min(ends) <= 4


@needs("choice of queues")
def test_rows_with_the_same_keys_share_a_queue_in_their_order(serve: ServeSink) -> None:
    sink = serve({"orders": 4})
    rows = [(f"{n:02}", f"key{n % 5}") for n in range(50)]
    sink.write(sink.rows("body STRING, keys STRING", *rows), topic="orders", queueSelector="hash", batchBytes="1024")
    read: dict[str, list[tuple[int, bytes]]] = {}
    for row in sorted(sink.read("orders"), key=lambda row: row["queueOffset"]):
        read.setdefault(row["keys"][0], []).append((row["queueId"], bytes(row["body"])))
    assert len(read) == 5
    for placed in read.values():
        assert len({queue for queue, _ in placed}) == 1
        assert [body for _, body in placed] == sorted(body for _, body in placed)


def test_a_message_group_keeps_its_order(serve: ServeSink) -> None:
    sink = serve({"orders": (4, TopicType.FIFO)})
    rows = [(f"{n:03}", f"g{n % 3}") for n in range(90)]
    sink.write(sink.rows("body STRING, messageGroup STRING", *rows), topic="orders", batchBytes="1024")
    for group in range(3):
        bodies = [m.message.body for m in sink.messages("orders") if m.message.message_group == f"g{group}"]
        assert bodies == sorted(bodies)
        assert len(bodies) == 30


def test_expressions_over_the_whole_row_are_written(serve: ServeSink) -> None:
    """Acceptance case 74."""
    sink = serve()
    sink.write(sink.rows("a INT, b STRING", (1, "x")).select(to_json(struct("*")).alias("body")), topic="orders")
    assert sink.bodies("orders") == [b'{"a":1,"b":"x"}']


def test_a_row_of_the_source_is_written_back_as_it_is(serve: ServeSink) -> None:
    sink = serve({"orders": 2})
    message = Message(b"x", "", tags="t", keys=("k",), properties={"p": "1"})
    sink.server.send("orders", message)
    for _ in range(2):  # the second time with the ids that the first gave
        sink.write(sink.batch("orders"))
    read = sink.read("orders")
    assert [(bytes(row["body"]), row["tags"], row["keys"], own(row["properties"])) for row in read] == [
        (b"x", "t", ["k"], {"p": "1"})
    ] * 4


@needs("delivery times in the past")
def test_a_message_that_was_delivered_late_is_written_on(serve: ServeSink) -> None:
    sink = serve({"orders": 2, "late": (1, TopicType.DELAY)})
    sink.server.send("orders", b"x")
    sink.write(sink.batch("orders").withColumn("deliveryTimestamp", lit(datetime.datetime(2026, 1, 1))), topic="late")
    assert sink.bodies("late") == [b"x"]
    sink.write(sink.batch("late"), topic="orders")
    assert sink.bodies("orders") == [b"x"] * 2


def test_a_delayed_message_waits_for_its_time(serve: ServeSink) -> None:
    sink = serve({"late": (1, TopicType.DELAY)}, moves_clock=True)
    now = datetime.datetime.fromtimestamp(sink.server.now_ms() / 1000, datetime.timezone.utc)
    row = ("soon", now + datetime.timedelta(seconds=8))
    sink.write(sink.rows("body STRING, deliveryTimestamp TIMESTAMP", row), topic="late")
    assert sink.bodies("late") == []
    sink.server.skip_time(9_000)
    wait_until(lambda: sink.bodies("late") == [b"soon"], "delivered")


@needs("delivery times in the past")
def test_a_time_in_the_past_delays_nothing(serve: ServeSink) -> None:
    sink = serve({"late": (1, TopicType.DELAY)})
    row = ("past", datetime.datetime(2026, 1, 1))
    sink.write(sink.rows("body STRING, deliveryTimestamp TIMESTAMP", row), topic="late")
    assert sink.bodies("late") == [b"past"]


@ONE_OF_EACH
def test_each_trigger_of_mode_complete_appends_the_whole_result(serve: ServeSink) -> None:
    sink = serve({"orders": 1, "counts": 1})
    for _ in range(2):
        sink.server.send("orders", b"a", b"b")
        counts = sink.stream("orders").groupBy("body").count().select(col("count").cast("string").alias("body"))
        sink.run(counts, "complete", topic="counts")
    assert sorted(sink.bodies("counts")) == [b"1", b"1", b"2", b"2"]


@ONE_OF_EACH
def test_all_writes_in_one_for_each_batch_are_stored(serve: ServeSink) -> None:
    sink = serve({"orders": 1, "copies": 1, "others": 1})
    sink.server.send("orders", b"1", b"2")

    def write(rows: DataFrame, _: int) -> None:
        for topic in ("copies", "others", "copies"):
            sink.write(rows.select("body"), topic=topic)

    await_end(sink.stream("orders").writeStream.foreachBatch(write).trigger(availableNow=True).start())
    assert (sorted(sink.bodies("copies")), sorted(sink.bodies("others"))) == ([b"1", b"1", b"2", b"2"], [b"1", b"2"])


@ONE_OF_EACH
def test_sql_inserts_into_a_view(serve: ServeSink) -> None:
    sink = serve()
    options = ", ".join(f"{name} '{value}'" for name, value in sink.server.options.items())
    sink.spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW orders_view USING rmqpull OPTIONS ({options}, topic 'orders')")
    sink.server.send("orders", b"1", b"2")
    sink.spark.sql("INSERT INTO orders_view SELECT * FROM orders_view")
    assert sorted(sink.bodies("orders")) == [b"1", b"1", b"2", b"2"]


@ONE_OF_EACH
def test_a_write_without_rows_or_partitions_succeeds(serve: ServeSink) -> None:
    sink = serve()
    sink.write(sink.rows("body STRING"), topic="orders")
    sink.write(sink.spark.createDataFrame(sink.spark.sparkContext.emptyRDD(), "body STRING"), topic="orders")
    assert sink.bodies("orders") == []


@needs("stages")
def test_a_failed_write_leaves_no_rows_and_a_finished_one_has_written_all(serve: ServeSink) -> None:
    sink = serve({"orders": 1})
    rows = sink.spark.range(0, 100, 1, 4).selectExpr("IF(id = 99, raise_error('late'), CAST(id AS STRING)) AS body")
    with pytest.raises(Exception, match="late"):
        sink.write(rows, topic="orders", batchBytes="1024")
    assert sink.bodies("orders") == []
    sink.write(sink.spark.range(0, 100, 1, 4).selectExpr("CAST(id AS STRING) AS body"), topic="orders")
    assert len(sink.bodies("orders")) == 100
