"""All transports return the same system properties, as far as the standard protocol has them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_client.transports.grpc.standard.rows import make_batch
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.columns import PROPERTIES
from rmqpull_proto.remoting.properties import (
    BORN_HOST,
    BORN_TIMESTAMP,
    INNER_NUM,
    OWN_BUT_NOT_RESERVED,
    SHARDING_KEY,
)
from rmqpull_proto.rpc import MESSAGING
from tests.harness.served_broker import ServeBroker

BOTH_OF_GRPC = pytest.mark.parametrize("extensions", ["columns", "none"])  # messages are sent by gRPC
ORDERS = MessageQueue("orders", "broker-a", 0)


ORDERS_V2 = v2.Resource(name="orders")


def send(endpoints: str, properties: dict[str, str], system: v2.SystemProperties) -> service.SendMessageResponse:
    message = v2.Message(topic=ORDERS_V2, body=b"x", user_properties=properties, system_properties=system)
    message.system_properties.message_id = "m"
    request = service.SendMessageRequest(messages=[message])
    answer: service.SendMessageResponse = call(endpoints, "SendMessage", request)
    return answer


def call(endpoints: str, method: str, request: Any) -> Any:
    return get_channel(Connection(endpoints, 60_000)).call(MESSAGING.methods[method], request)


def maps(endpoints: str, count: int, extensions: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """``properties`` and ``systemProperties`` of each row.

    Where a message was born is checked and left out: the standard protocol has it in fields of its own.
    """
    client = connect(Connection(endpoints, 60_000))
    pulled = client.read("readers", [QueueRange(ORDERS, 0, count)], ["properties", "systemProperties"])
    rows = [row for answer in pulled for entry in answer for batch in entry.batches for row in batch.to_pylist()]
    client.close()
    systems = [dict(row["systemProperties"]) for row in rows]
    for system in systems:
        assert (BORN_HOST in system, BORN_TIMESTAMP in system) == (extensions == "columns",) * 2
        system.pop(BORN_HOST, None)
        system.pop(BORN_TIMESTAMP, None)
    return [(dict(row["properties"]), system) for row, system in zip(rows, systems, strict=True)]


@BOTH_OF_GRPC
def test_both_transports_return_the_same_properties(serve: ServeBroker, extensions: str) -> None:
    """Acceptance case 44: no property is an empty map, never null."""
    endpoints = serve().endpoints
    send(endpoints, {}, v2.SystemProperties())
    send(endpoints, {"colour": "red"}, v2.SystemProperties(trace_context="00-4bf9-01", tag="paid", keys=["k"]))
    assert maps(endpoints, 2, extensions) == [({}, {}), ({"colour": "red"}, {"TRACE_CONTEXT": "00-4bf9-01"})]


NOT_RESERVED = OWN_BUT_NOT_RESERVED - {SHARDING_KEY, INNER_NUM}
"""Names of RocketMQ's that clients of some release may set. A broker refuses INNER_NUM."""


def test_rocketmqs_names_are_not_among_the_users_properties(serve: ServeBroker) -> None:
    given = {**dict.fromkeys(sorted(NOT_RESERVED), "x"), "colour": "red"}
    rows = pa.record_batch({"body": [b"x"], "properties": pa.array([list(given.items())], PROPERTIES)})
    served = serve(batch=rows)
    [queue] = served.client.query_bounds(["orders"])["orders"].queues
    pulled = served.client.read("readers", [QueueRange(queue, 0, 1)], ["properties", "systemProperties"])
    [row] = [row for answer in pulled for entry in answer for batch in entry.batches for row in batch.to_pylist()]
    assert dict(row["properties"]) == {"colour": "red"}
    assert {name: value for name, value in row["systemProperties"] if value == "x"} == dict.fromkeys(NOT_RESERVED, "x")


@BOTH_OF_GRPC
def test_rocketmqs_names_that_a_grpc_client_sets_are_not_among_the_users(serve: ServeBroker, extensions: str) -> None:
    endpoints = serve().endpoints
    own = {"INNER_MULTI_DISPATCH": "a,b", "TRACE_CONTEXT": "00-4b"}
    send(endpoints, {"colour": "red", **own}, v2.SystemProperties())
    assert maps(endpoints, 1, extensions) == [({"colour": "red"}, own)]


@BOTH_OF_GRPC
def test_a_priority_that_a_grpc_client_sets(extensions: str) -> None:
    with running_broker({"orders": (4, TopicType.PRIORITY)}, extensions=extensions) as broker:
        send(broker.endpoints, {"colour": "red"}, v2.SystemProperties(priority=0))
        assert maps(broker.endpoints, 1, extensions) == [({"colour": "red"}, {"_SYS_MSG_PRIORITY_": "0"})]


@BOTH_OF_GRPC
def test_a_committed_transactional_message(extensions: str) -> None:
    """The standard protocol withholds reserved names, such as PGROUP (rules 5.11, 5.12.1)."""
    transaction = v2.SystemProperties(message_type=v2.MessageType.TRANSACTION)
    transaction.orphaned_transaction_recovery_duration.seconds = 77
    with running_broker({"orders": (1, TopicType.TRANSACTION)}, extensions=extensions) as broker:
        entry = send(broker.endpoints, {"colour": "red"}, transaction).entries[0]
        end = service.EndTransactionRequest(
            topic=ORDERS_V2,
            message_id=entry.message_id,
            transaction_id=entry.transaction_id,
            resolution=v2.TransactionResolution.COMMIT,
        )
        call(broker.endpoints, "EndTransaction", end)
        [(properties, system_properties)] = maps(broker.endpoints, 1, extensions)
    assert properties == {"colour": "red"}
    reserved = {"PGROUP": "orders", "TRAN_MSG": "true"}
    told = {"CHECK_IMMUNITY_TIME_IN_SECONDS": "77", "__transactionId__": entry.transaction_id}
    assert system_properties == told | (reserved if extensions == "columns" else {})


def test_a_dead_letter_has_its_origin() -> None:
    origin = v2.DeadLetterQueue(topic="orders", message_id="m-7")
    message = v2.Message(system_properties=v2.SystemProperties(dead_letter_queue=origin))
    [row] = make_batch([message], ["systemProperties"]).to_pylist()
    assert dict(row["systemProperties"]) == {"DLQ_ORIGIN_TOPIC": "orders", "DLQ_ORIGIN_MESSAGE_ID": "m-7"}
