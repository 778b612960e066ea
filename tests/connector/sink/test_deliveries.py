"""Deliveries have several calls in flight, or one where messages have an order, and find the rows that are refused."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink import deliveries
from pyspark_rmqpull.sink.deliveries import ColumnDelivery, MessageDelivery
from pyspark_rmqpull.sink.invalid_rows import InvalidRow
from pyspark_rmqpull.sink.row_ids import RowIds
from pyspark_rmqpull.sink.topic_parts import PartedRows
from rmqpull_client.errors import BrokerUnavailable, RequestRefused, RmqpullError, TransactionTaken
from rmqpull_client.transports.port import Producer, TransactionId
from tests.harness.fake_producer import FakeProducer
from tests.harness.waiting import wait_until

BATCH = TransactionId("query", 7)
BODIES = [bytes([number]) * 100 for number in range(60)]


def rows(bodies: list[bytes], **columns: Any) -> PartedRows:
    return PartedRows.of_topic("orders", pa.record_batch({"body": pa.array(bodies, pa.binary()), **columns}))


class DeliveryRun:
    """A harness: one delivery, and the rows that it found to be invalid. A call has about ten of :data:`BODIES`."""

    def __init__(self, producer: FakeProducer, kind: str = "columns", **options: str) -> None:
        given = {"endpoints": "a:1", "batchBytes": "1100", "inFlight": "4"} | options
        parsed, server = SinkOptions.from_options(given), cast("Producer", producer)
        self.invalid: list[InvalidRow] = []
        ids = RowIds("query", 7, 0)
        self.delivery: ColumnDelivery | MessageDelivery
        if kind == "stage":
            self.delivery = ColumnDelivery(server, parsed, self.invalid.append, stage=(BATCH, "s"))
        elif kind == "columns":
            self.delivery = ColumnDelivery(server, parsed, self.invalid.append)
        else:
            self.delivery = MessageDelivery(server, parsed, self.invalid.append, ids)

    def deliver(self, rows: PartedRows) -> Any:
        self.delivery.deliver_rows(rows)
        try:
            return self.delivery.finish_delivery()
        finally:
            self.delivery.close()


@pytest.mark.parametrize("kind", ["columns", "stage", "messages"])
def test_everything_is_delivered_in_order_with_four_calls_in_flight(producer: FakeProducer, kind: str) -> None:
    delivered = DeliveryRun(producer, kind).deliver(rows(BODIES))
    assert producer.in_order == BODIES
    assert producer.most_in_flight == 4
    assert producer.in_flight == 0
    assert delivered == (("s", len(producer.stored)) if kind == "stage" else (None, 0))


GROUPS = {"messageGroup": pa.array(["g"] * len(BODIES))}
NO_GROUPS = {"messageGroup": pa.array([None] * len(BODIES), pa.string())}


@pytest.mark.parametrize(
    ("kind", "columns", "options", "in_flight"),
    [
        ("columns", {}, {}, 4),
        ("columns", GROUPS, {}, 1),
        ("columns", NO_GROUPS, {}, 4),
        ("columns", {}, {"queueSelector": "hash"}, 1),
        ("columns", {}, {"queueSelector": "explicit"}, 1),
        ("stage", GROUPS, {}, 4),
        ("stage", {}, {"queueSelector": "hash"}, 4),
        ("messages", GROUPS, {}, 1),
        ("messages", NO_GROUPS, {}, 4),
    ],
)
def test_messages_with_an_order_have_one_call_in_flight(
    producer: FakeProducer, kind: str, columns: dict[str, Any], options: dict[str, str], in_flight: int
) -> None:
    DeliveryRun(producer, kind, **options).deliver(rows(BODIES, **columns))
    assert producer.most_in_flight == in_flight


@pytest.mark.parametrize(("columns", "options"), [(GROUPS, {}), ({}, {"queueSelector": "hash"})])
def test_a_producer_that_keeps_the_order_itself_has_as_many_calls_in_flight_as_allowed(
    producer: FakeProducer, columns: dict[str, Any], options: dict[str, str]
) -> None:
    producer.keeps_order = True
    DeliveryRun(producer, **options).deliver(rows(BODIES, **columns))
    assert producer.most_in_flight == 4


def test_messages_of_different_groups_do_not_wait_for_each_other(producer: FakeProducer) -> None:
    DeliveryRun(producer, "messages").deliver(rows(BODIES[:4], messageGroup=pa.array(["a", "b", "a", "c"])))
    assert producer.most_in_flight == 3  # the second of "a" waits for the first of "a", and "c" for nothing


@pytest.mark.parametrize("kind", ["columns", "stage", "messages"])
@given(bad=st.sets(st.sampled_from(range(60)), max_size=5))
def test_a_refused_row_is_found_and_the_others_keep_their_order(kind: str, bad: set[int]) -> None:
    producer = FakeProducer(bad={BODIES[number] for number in bad})
    run = DeliveryRun(producer, kind, inFlight="1" if kind == "columns" else "4")
    delivered = run.deliver(rows(BODIES))
    assert producer.in_order == [body for number, body in enumerate(BODIES) if number not in bad]
    assert sorted(entry.row.rows.column("body")[0].as_py() for entry in run.invalid) == sorted(producer.bad)
    assert {entry.reason for entry in run.invalid} <= {"A tag is illegal."}
    if kind == "stage":
        assert delivered.call_count == len(producer.stored)
        assert len(set(producer.sequences)) == len(producer.sequences)


def test_refused_rows_that_the_producer_names_are_invalid_and_nothing_is_sent_again(producer: FakeProducer) -> None:
    producer.bad, producer.stores_the_others = {BODIES[3], BODIES[4], BODIES[41]}, True
    run = DeliveryRun(producer)
    run.deliver(rows(BODIES))
    assert [entry.row.rows.column("body")[0].as_py() for entry in run.invalid] == [BODIES[3], BODIES[4], BODIES[41]]
    assert {entry.reason for entry in run.invalid} == {"A tag is illegal."}
    assert producer.in_order == [body for body in BODIES if body not in producer.bad]


@pytest.mark.parametrize("kind", ["columns", "stage", "messages"])
@pytest.mark.parametrize(
    "failure",
    [
        RequestRefused("FORBIDDEN", "No writable queue."),
        TransactionTaken("INVALID_TRANSACTION_ID", "No, it is older."),
        BrokerUnavailable("Nobody answers."),
    ],
)
def test_any_other_error_is_raised_with_the_topic(producer: FakeProducer, kind: str, failure: RmqpullError) -> None:
    producer.failure = failure
    with pytest.raises(type(failure), match="Cannot write rows to topic orders: No") as raised:
        DeliveryRun(producer, kind).deliver(rows(BODIES))
    assert type(raised.value) is type(failure)
    assert getattr(raised.value, "code", None) == getattr(failure, "code", None)


@pytest.mark.parametrize("kind", ["columns", "stage"])
def test_calls_ask_for_large_parts_once_the_task_has_written_enough_rows(producer: FakeProducer, kind: str) -> None:
    producer.queue_count = 2
    run = DeliveryRun(producer, kind, batchBytes="4194304")
    for _ in range(4):
        run.delivery.deliver_rows(rows([b"x"] * 10_000))
    run.deliver(rows([b"x"]))
    assert producer.slice_rows == [{"orders": 1_024}] * 5
    run = DeliveryRun(producer, kind, batchBytes="4194304")
    run.deliver(rows([b"x"] * 2_048))
    assert producer.slice_rows[5:] == [{}]


def test_a_refused_row_is_counted_once(producer: FakeProducer) -> None:
    producer.queue_count, producer.bad = 2, {b"bad"}
    DeliveryRun(producer, batchBytes="4194304").deliver(rows([b"x"] * 1_999 + [b"bad"]))
    assert len(producer.slice_rows) > 10
    assert not any(producer.slice_rows)


def test_a_micro_batch_that_is_committed_already_is_not_staged_further(producer: FakeProducer) -> None:
    producer.is_committed = True
    run = DeliveryRun(producer, "stage", inFlight="1")
    run.delivery.deliver_rows(rows(BODIES))
    assert producer.in_flight == 0  # the response to the first call was enough
    run.delivery.close()


def test_a_stage_is_kept_alive_while_its_task_waits_for_rows(
    producer: FakeProducer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliveries, "_KEEPS_PER_TIMEOUT", 10_000)
    delivery = DeliveryRun(producer, "stage", transactionTimeoutMs="10000").delivery
    wait_until(lambda: producer.keeps >= 2, "kept alive twice")  # by the thread of the stage keeper
    delivery.close()
