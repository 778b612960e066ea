"""Messages are handed over in a window of calls, one by one where their order hangs on it; refused rows are found."""

from __future__ import annotations

from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink import deliveries
from pyspark_rmqpull.sink.deliveries import Columns, Messages
from pyspark_rmqpull.sink.encoding import InvalidRow
from pyspark_rmqpull.sink.row_ids import RowIds
from pyspark_rmqpull.sink.topic_parts import PartedRows
from rmqpull_client.errors import BrokerUnavailable, RequestRefused, RmqpullError
from rmqpull_client.transports.grpc.producer import Producer, TransactionId
from tests.harness.fake_producer import FakeProducer
from tests.harness.waiting import wait_until

BATCH = TransactionId("query", 7)
BODIES = [bytes([number]) * 100 for number in range(60)]


def rows(bodies: list[bytes], **columns: Any) -> PartedRows:
    return PartedRows.of_topic("orders", pa.record_batch({"body": pa.array(bodies, pa.binary()), **columns}))


class Handover:
    """One delivery and the rows that it found to be invalid; calls have about ten of :data:`BODIES`."""

    def __init__(self, producer: FakeProducer, kind: str = "columns", **options: str) -> None:
        given = {"endpoints": "a:1", "batchBytes": "1100", "inFlight": "4"} | options
        checked, server = SinkOptions.from_options(given), cast("Producer", producer)
        self.invalid: list[InvalidRow] = []
        ids = RowIds("query", 7, 0)
        self.delivery: Columns | Messages
        if kind == "stage":
            self.delivery = Columns(server, checked, self.invalid.append, stage=(BATCH, "s"))
        elif kind == "columns":
            self.delivery = Columns(server, checked, self.invalid.append)
        else:
            self.delivery = Messages(server, checked, self.invalid.append, ids)

    def take(self, rows: PartedRows) -> Any:
        self.delivery.send(rows)
        try:
            return self.delivery.finish()
        finally:
            self.delivery.close()


@pytest.mark.parametrize("kind", ["columns", "stage", "messages"])
def test_everything_is_handed_over_in_order_within_the_window(producer: FakeProducer, kind: str) -> None:
    handed = Handover(producer, kind).take(rows(BODIES))
    assert producer.in_order == BODIES
    assert producer.most_under_way == 4
    assert producer.under_way == 0
    assert handed == (("s", len(producer.kept)) if kind == "stage" else (None, 0))


GROUPS = {"messageGroup": pa.array(["g"] * len(BODIES))}
NO_GROUPS = {"messageGroup": pa.array([None] * len(BODIES), pa.string())}


@pytest.mark.parametrize(
    ("kind", "columns", "options", "width"),
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
def test_one_call_at_a_time_where_an_order_hangs_on_it(
    producer: FakeProducer, kind: str, columns: dict[str, Any], options: dict[str, str], width: int
) -> None:
    Handover(producer, kind, **options).take(rows(BODIES, **columns))
    assert producer.most_under_way == width


def test_messages_of_different_groups_do_not_wait_for_each_other(producer: FakeProducer) -> None:
    Handover(producer, "messages").take(rows(BODIES[:4], messageGroup=pa.array(["a", "b", "a", "c"])))
    assert producer.most_under_way == 3  # the second of "a" waits for the first alone


@pytest.mark.parametrize("kind", ["columns", "stage", "messages"])
@given(bad=st.sets(st.sampled_from(range(60)), max_size=5))
def test_a_refused_row_is_found_and_the_others_keep_their_order(kind: str, bad: set[int]) -> None:
    producer = FakeProducer(bad={BODIES[number] for number in bad})
    handover = Handover(producer, kind, inFlight="1" if kind == "columns" else "4")
    handed = handover.take(rows(BODIES))
    assert producer.in_order == [body for number, body in enumerate(BODIES) if number not in bad]
    assert sorted(entry.row.rows.column("body")[0].as_py() for entry in handover.invalid) == sorted(producer.bad)
    assert {entry.reason for entry in handover.invalid} <= {"A tag is illegal."}
    if kind == "stage":
        assert handed.call_count == len(producer.kept)
        assert len(set(producer.places)) == len(producer.places)


@pytest.mark.parametrize("kind", ["columns", "stage", "messages"])
@pytest.mark.parametrize(
    "failure", [RequestRefused("FORBIDDEN", "No writable queue."), BrokerUnavailable("Nobody answers.")]
)
def test_any_other_failure_ends_it_and_names_the_topic(
    producer: FakeProducer, kind: str, failure: RmqpullError
) -> None:
    producer.failure = failure
    with pytest.raises(type(failure), match="Rows for topic orders were not taken: No") as ended:
        Handover(producer, kind).take(rows(BODIES))
    assert getattr(ended.value, "code", None) == getattr(failure, "code", None)


def test_nothing_more_is_staged_of_a_batch_that_was_committed(producer: FakeProducer) -> None:
    producer.is_committed = True
    handover = Handover(producer, "stage", inFlight="1")
    handover.delivery.send(rows(BODIES))
    assert producer.under_way == 0  # the second call was never begun: the first one's answer was enough
    handover.delivery.close()


def test_a_stage_is_kept_alive_while_its_task_waits(producer: FakeProducer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "_KEEPS_PER_TIMEOUT", 10_000)
    delivery = Handover(producer, "stage", transactionTimeoutMs="10000").delivery
    wait_until(lambda: producer.keeps >= 2, "kept alive twice")  # a thread of its own does it
    delivery.close()
