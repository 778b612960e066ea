"""EndTransaction over gRPC: half messages, their end, and the check of a producer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.server.grpc.wire.proxy_errors import FROM_PROXY
from rmqpull_broker.testing import RunningBroker, Topics, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import OpenTelemetryStream, RpcClient

COMMIT, ROLLBACK = v2.TransactionResolution.COMMIT, v2.TransactionResolution.ROLLBACK
UNSPECIFIED = v2.TransactionResolution.TRANSACTION_RESOLUTION_UNSPECIFIED


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    topics: Topics = {"payments": (1, TopicType.TRANSACTION), "orders": 1}
    with running_broker(topics=topics, clock="manual") as running:
        yield running


def send_half(client: RpcClient, msg_id: str = "ID") -> str:
    """Sends a half message. Returns the id of its transaction."""
    system = v2.SystemProperties(message_id=msg_id, message_type=v2.MessageType.TRANSACTION)
    answer = client.send(v2.Message(topic=v2.Resource(name="payments"), body=b"paid", system_properties=system))
    return str(answer.entries[0].transaction_id)


def end(
    client: RpcClient, transaction_id: str, resolution: v2.TransactionResolution, *, from_check: bool = False
) -> tuple[str, str]:
    source = v2.TransactionSource.SOURCE_SERVER_CHECK if from_check else v2.TransactionSource.SOURCE_CLIENT
    request = service.EndTransactionRequest(
        topic=v2.Resource(name="payments"),
        message_id=transaction_id,
        transaction_id=transaction_id,
        resolution=resolution,
        source=source,
    )
    status = client.call("EndTransaction", request).status
    return v2.Code.Name(status.code), status.message


def readable(broker: RunningBroker) -> list[bytes]:
    return [row.message.body for row in broker.messages("payments")]


@pytest.mark.parametrize(
    ("resolution", "bodies", "waiting"), [(COMMIT, [b"paid"], 0), (ROLLBACK, [], 0), (UNSPECIFIED, [], 1)]
)
def test_the_producer_decides_on_its_half_message(
    broker: RunningBroker, client: RpcClient, resolution: v2.TransactionResolution, bodies: list[bytes], waiting: int
) -> None:
    transaction = send_half(client)
    assert readable(broker) == []
    assert end(client, transaction, resolution) == ("OK", "OK")
    assert (readable(broker), broker.look(lambda state: len(state.halves))) == (bodies, waiting)


def test_a_second_end_of_a_transaction_is_refused(client: RpcClient) -> None:
    transaction = send_half(client)
    end(client, transaction, ROLLBACK)
    assert end(client, transaction, COMMIT) == ("INTERNAL_SERVER_ERROR", f"{FROM_PROXY}cannot found transaction data")


@pytest.mark.parametrize("transaction_id", ["", "  "])
def test_an_end_needs_a_transaction_id(client: RpcClient, transaction_id: str) -> None:
    assert end(client, transaction_id, COMMIT) == ("INVALID_TRANSACTION_ID", "transaction id cannot be empty")


def test_a_producer_is_asked_to_check_its_transaction(
    broker: RunningBroker, client: RpcClient, open_telemetry_stream: OpenTelemetryStream
) -> None:
    stream = open_telemetry_stream(client, "PRODUCER", "payments")
    transaction = send_half(client)
    broker.clock.advance(seconds=31)
    asked = stream.receive().recover_orphaned_transaction_command
    assert (asked.transaction_id, asked.message.body, asked.message.topic.name) == (transaction, b"paid", "payments")
    assert end(client, transaction, COMMIT, from_check=True) == ("OK", "OK")
    assert readable(broker) == [b"paid"]
