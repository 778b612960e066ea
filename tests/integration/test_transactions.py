"""Transactional messages: a query reads committed messages only."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING
from tests.harness.spark_queries import Queries, Topic

if TYPE_CHECKING:
    from google.protobuf.message import Message


PAYMENTS = v2.Resource(name="payments")
COMMIT, ROLLBACK = v2.TransactionResolution.COMMIT, v2.TransactionResolution.ROLLBACK


def call(broker: RunningBroker, method: str, request: Message) -> service.SendMessageResponse:
    answer: service.SendMessageResponse = get_channel(Connection(broker.endpoints, 60_000)).call(
        MESSAGING.methods[method], request
    )
    assert answer.status.code == v2.Code.OK
    return answer


def begin(broker: RunningBroker, body: bytes) -> service.EndTransactionRequest:
    """Sends a half message. Returns what ends its transaction."""
    system = v2.SystemProperties(message_id=body.decode(), message_type=v2.MessageType.TRANSACTION)
    half = v2.Message(topic=PAYMENTS, body=body, system_properties=system)
    sent = call(broker, "SendMessage", service.SendMessageRequest(messages=[half])).entries[0]
    return service.EndTransactionRequest(topic=PAYMENTS, message_id=sent.message_id, transaction_id=sent.transaction_id)


def end(broker: RunningBroker, transaction: service.EndTransactionRequest, how: v2.TransactionResolution) -> None:
    transaction.resolution = how
    call(broker, "EndTransaction", transaction)


def test_only_committed_messages_are_read_and_others_leave_no_gap(
    queries: Queries, topic: Topic, extensions: str
) -> None:
    """Acceptance case 28. RocketMQ keeps half messages apart: unlike Kafka's, they take no offset of the topic."""
    with running_broker({"payments": (1, TopicType.TRANSACTION)}, extensions=extensions) as broker:
        payments = replace(topic, name="payments", endpoints=broker.endpoints)
        committed, rolled_back, open_still = (begin(broker, body) for body in (b"committed", b"rolled-back", b"open"))
        run = queries.start(queries.stream(payments))
        run.query.processAllAvailable()
        assert run.rows == []

        end(broker, rolled_back, ROLLBACK)
        end(broker, committed, COMMIT)
        run.query.processAllAvailable()
        assert [(bytes(row["body"]), row["queueOffset"]) for row in run.rows] == [(b"committed", 0)]
        run.query.stop()

        end(broker, open_still, COMMIT)
        later = queries.run(queries.stream(payments)).rows
        assert [(bytes(row["body"]), row["queueOffset"]) for row in later] == [(b"open", 1)]
        assert [bytes(row["body"]) for row in queries.batch(payments).collect()] == [b"committed", b"open"]
