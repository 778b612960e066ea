"""PullColumns over gRPC: many queues in one response, and one parked pull for all of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import Message
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.parking_watch import ParkingWatch
from tests.harness.rpc_client import Connect, RpcClient

LONG_MS = 250_000
O0, O1, SINGLE = ("orders", 0), ("orders", 1), ("single", 0)


def pull_of(*queues: tuple[tuple[str, int], int], tags: str = "*", **fields: Any) -> v1.PullColumnsRequest:
    """Each queue is ((topic, queue id), offset)."""
    pulls = [
        v1.QueuePull(queue=v1.Queue(topic=topic, broker_name="broker-a", queue_id=queue_id), offset=offset)
        for (topic, queue_id), offset in queues
    ]
    filter_expression = v2.FilterExpression(expression=tags)
    return v1.PullColumnsRequest(**{"group": "g", "queues": pulls, "filter_expression": filter_expression, **fields})


def statuses(answer: Any) -> list[tuple[str, int, int]]:
    """The status, rows and next offset of each queue."""
    assert answer.status.code == v2.Code.OK, answer.status
    return [(v1.PullStatus.Name(queue.pull_status), queue.row_count, queue.next_offset) for queue in answer.queues]


def table_of(answer: Any) -> pa.Table:
    return pa.Table.from_batches(read_stream(answer.arrow_ipc, PULLABLE_SCHEMA))


def bodies_of(answer: Any) -> list[bytes]:
    return table_of(answer).column("body").to_pylist() if answer.arrow_ipc else []


@pytest.fixture
def filled(client: RpcClient) -> RpcClient:
    """orders/0 has a and c; orders/1 has b; single/0 is empty."""
    for body in (b"a", b"b", b"c"):
        client.send_bodies("orders", body, tag=body.decode())
    return client


def test_queues_are_answered_in_the_order_of_the_request_with_their_rows_in_it(filled: RpcClient) -> None:
    answer = filled.call("PullColumns", pull_of((O1, 0), (SINGLE, 0), (O0, 0)))
    assert statuses(answer) == [("FOUND", 1, 1), ("NO_MESSAGE_IN_QUEUE", 0, 0), ("FOUND", 2, 2)]
    assert bodies_of(answer) == [b"b", b"a", b"c"]
    assert [(queue.min_offset, queue.max_offset) for queue in answer.queues] == [(0, 1), (0, 0), (0, 2)]


def test_all_columns_come_in_the_schema_of_the_wire(filled: RpcClient) -> None:
    assert table_of(filled.call("PullColumns", pull_of((O0, 0)))).schema == columns.PULL_SCHEMA


def test_the_trace_context_is_a_system_property_which_is_sent_on_request(client: RpcClient) -> None:
    born: dict[str, Any] = {"born_host": "laptop", "born_timestamp": datetime.fromtimestamp(7, timezone.utc)}
    client.send_bodies("single", b"plain", **born)
    client.send_bodies("single", b"traced", trace_context="00-4bf9-01", **born)
    table = table_of(client.call("PullColumns", pull_of((SINGLE, 0), columns=["body", "systemProperties"])))
    of_proxy = [("__BORNHOST", "laptop"), ("BORN_TIMESTAMP", "7000")]
    assert table.to_pydict() == {
        "body": [b"plain", b"traced"],
        "systemProperties": [of_proxy, [*of_proxy, ("TRACE_CONTEXT", "00-4bf9-01")]],
    }


def test_messages_of_older_releases_have_the_born_host_of_their_record_and_the_name_as_a_property(
    client: RpcClient, broker: RunningBroker
) -> None:
    """They have the host without a port. A host in a batch of columns is stored in the same way."""
    for host in ("10.0.0.2", "laptop"):
        broker.send("single", Message(b"x", "", born_host=host, born_timestamp_ms=7))
    table = table_of(client.call("PullColumns", pull_of((SINGLE, 0), columns=["bornHost", "systemProperties"])))
    assert table.to_pydict() == {
        "bornHost": ["10.0.0.2:0", "0.0.0.0:0"],
        "systemProperties": [[("__BORNHOST", host), ("BORN_TIMESTAMP", "7")] for host in ("10.0.0.2", "laptop")],
    }


def test_only_requested_columns_are_sent(filled: RpcClient) -> None:
    table = table_of(filled.call("PullColumns", pull_of((O0, 0), columns=["body", "queueOffset"])))
    assert table.to_pydict() == {"queueOffset": [0, 1], "body": [b"a", b"c"]}


@pytest.mark.parametrize(
    ("offset", "status"),
    [
        (2, ("OFFSET_OVERFLOW_ONE", 0, 2)),
        (3, ("OFFSET_OVERFLOW_BADLY", 0, 2)),
        (-1, ("OFFSET_TOO_SMALL", 0, 0)),
    ],
)
def test_an_offset_without_a_message_has_its_own_status(
    filled: RpcClient, offset: int, status: tuple[str, int, int]
) -> None:
    answer = filled.call("PullColumns", pull_of((O0, offset)))
    assert (statuses(answer), answer.arrow_ipc) == ([status], b"")


def test_a_missing_queue_does_not_affect_the_others(filled: RpcClient) -> None:
    answer = filled.call("PullColumns", pull_of((("orders", 9), 4), (("unknown", 0), 0), (O0, 0)))
    missing = "NO_MATCHED_LOGIC_QUEUE"
    assert statuses(answer) == [(missing, 0, 4), (missing, 0, 0), ("FOUND", 2, 2)]


def test_a_filter_skips_other_rows(filled: RpcClient) -> None:
    answer = filled.call("PullColumns", pull_of((O0, 0), (O1, 0), tags="c"))
    assert statuses(answer) == [("FOUND", 1, 2), ("NO_MATCHED_MESSAGE", 0, 1)]
    assert bodies_of(answer) == [b"c"]


def test_a_sql_filter_looks_at_properties(filled: RpcClient) -> None:
    sql = v2.FilterExpression(type=v2.FilterType.SQL, expression="TAGS = 'c' OR colour = 'red'")
    assert bodies_of(filled.call("PullColumns", pull_of((O0, 0), (O1, 0), filter_expression=sql))) == [b"c"]


@pytest.mark.parametrize("limits", [{"max_rows": 1}, {"max_bytes": 1}])
def test_limits_hold_for_the_whole_answer_and_the_first_message_always_fits(
    filled: RpcClient, limits: dict[str, Any]
) -> None:
    answer = filled.call("PullColumns", pull_of((O0, 0), (O1, 0), **limits))
    assert statuses(answer) == [("FOUND", 1, 1), ("NOT_REACHED", 0, 0)]


def test_nothing_is_read_at_or_beyond_the_until_offset(filled: RpcClient) -> None:
    request = pull_of((O0, 0))
    request.queues[0].until_offset = 1
    answer = filled.call("PullColumns", request)
    assert (statuses(answer), bodies_of(answer)) == ([("FOUND", 1, 1)], [b"a"])


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pull_of(), "BAD_REQUEST"),
        (pull_of((("", 0), 0)), "BAD_REQUEST"),
        (pull_of((SINGLE, 0), columns=["colour"]), "BAD_REQUEST"),
        (pull_of((SINGLE, 0), group=""), "ILLEGAL_CONSUMER_GROUP"),
        (pull_of((SINGLE, 0), tags="||"), "ILLEGAL_FILTER_EXPRESSION"),
        (pull_of((SINGLE, 0), long_polling_timeout_ms=300_001), "ILLEGAL_POLLING_TIME"),
        (
            pull_of((SINGLE, 0), filter_expression=v2.FilterExpression(type=v2.FilterType.SQL, expression="a >")),
            "ILLEGAL_FILTER_EXPRESSION",
        ),
    ],
)
def test_a_bad_pull_is_refused(client: RpcClient, request_: v1.PullColumnsRequest, code: str) -> None:
    assert client.code("PullColumns", request_) == code


def test_a_pull_creates_its_group(client: RpcClient) -> None:
    single = v2.MessageQueue(topic=v2.Resource(name="single"))
    client.call("PullColumns", pull_of((SINGLE, 0), group="new"))
    assert client.update_offset("new", single, 1) == "OK"


# --- long polling -----------------------------------------------------------------------------------------------------


def test_an_arrival_on_any_queue_ends_the_wait_and_a_foreign_tag_does_not(
    client: RpcClient, parking_watch: ParkingWatch
) -> None:
    pull = client.start(
        "PullColumns", pull_of((SINGLE, 0), (O0, 0), (O1, 0), tags="wanted", long_polling_timeout_ms=LONG_MS)
    )
    parking_watch.await_parked()
    client.send_bodies("orders", b"noise", tag="foreign")
    # A pull that an arrival wakes ends before the response to the send.
    assert parking_watch.left.empty()
    client.send_bodies("orders", b"news", tag="wanted")
    answer = pull.await_response()
    assert statuses(answer) == [("NO_MESSAGE_IN_QUEUE", 0, 0), ("NO_MATCHED_MESSAGE", 0, 1), ("FOUND", 1, 1)]
    assert bodies_of(answer) == [b"news"]


def test_a_published_batch_wakes_too(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = client.start("PullColumns", pull_of((O1, 0), long_polling_timeout_ms=LONG_MS))
    parking_watch.await_parked()
    batch = pa.RecordBatch.from_pydict({"body": [b"0", b"1"]})
    arrow_ipc = columns.write_stream(batch.schema, [batch])
    client.call("PublishColumns", v1.PublishColumnsRequest(topic="orders", arrow_ipc=arrow_ipc))
    assert bodies_of(pull.await_response()) == [b"1"]


def test_one_queue_with_a_result_prevents_parking(filled: RpcClient, parking_watch: ParkingWatch) -> None:
    for offset in (0, -1, 9):
        filled.call("PullColumns", pull_of((SINGLE, 0), (O0, offset), long_polling_timeout_ms=LONG_MS))
    assert parking_watch.entered.empty()


def test_a_pull_that_parks_without_an_arrival_finds_no_message(filled: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = filled.start("PullColumns", pull_of((SINGLE, 0), (O0, 2), long_polling_timeout_ms=20))
    parking_watch.await_parked()
    assert statuses(pull.await_response()) == [("NO_MESSAGE_IN_QUEUE", 0, 0), ("OFFSET_OVERFLOW_ONE", 0, 2)]


def test_a_queue_may_be_named_twice(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = client.start("PullColumns", pull_of((SINGLE, 0), (SINGLE, 0), long_polling_timeout_ms=LONG_MS))
    parking_watch.await_parked()
    client.send_bodies("single", b"news")
    assert bodies_of(pull.await_response()) == [b"news", b"news"]


def test_a_pull_whose_caller_leaves_is_removed(client: RpcClient, parking_watch: ParkingWatch) -> None:
    pull = client.start("PullColumns", pull_of((SINGLE, 0), (O0, 0), long_polling_timeout_ms=LONG_MS))
    parked = parking_watch.await_parked()
    pull.cancel()
    assert parking_watch.await_left() is parked


def test_parked_pulls_are_answered_when_the_broker_stops(connect: Connect, parking_watch: ParkingWatch) -> None:
    with running_broker(topics={"single": 1}) as broker:
        pull = connect(broker.endpoints).start("PullColumns", pull_of((SINGLE, 0), long_polling_timeout_ms=LONG_MS))
        parking_watch.await_parked()
    assert statuses(pull.await_response()) == [("NO_MESSAGE_IN_QUEUE", 0, 0)]
