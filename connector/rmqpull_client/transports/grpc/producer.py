"""What the sink asks of a server: sends, and transactions where the server has them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable, RequestRefused
from rmqpull_client.transports.grpc.channel import BrokerChannel, get_channel
from rmqpull_client.transports.grpc.failures import Unserved
from rmqpull_proto import columns as wire
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2 as stages
from rmqpull_proto.rpc import COLUMNS, MESSAGING, STAGES

_UNSETTLED = ("TOO_MANY_REQUESTS", "INTERNAL_ERROR", "INTERNAL_SERVER_ERROR", "PROXY_TIMEOUT")
"""Answers to a commit that may have been decided on, now or when it was asked for before."""

ANOTHER_TRANSACTION = "INVALID_TRANSACTION_ID"
"""The answer to a stage or a commit of a micro-batch whose number stands for another one that was committed."""


TopicParts = Sequence[tuple[str, int]]
"""Of which topics the rows of a batch are, in their order: each topic with its number of rows."""


class TransactionId(NamedTuple):
    """What is committed together: one micro-batch of a query, or a batch write, which has no number."""

    writer_id: str
    batch_id: int | None


class CommitRecord(NamedTuple):
    """What a micro-batch is, by which the broker tells it from another of the same number; see ``stages.proto``.

    An empty plan is one that is not known.
    """

    plan: bytes
    destination: str
    row_count: int
    digest: bytes


class CommitResponse(NamedTuple):
    """Whether the transaction was committed before, and whether the server knows that it was the same one."""

    was_committed: bool
    was_compared: bool


class Producer:
    """Sends to one server. Every call raises BrokerUnavailable when nobody answers in time, and RequestRefused."""

    def __init__(self, channel: BrokerChannel) -> None:
        self._channel = channel
        self._described: v1.DescribeServerResponse | None = None

    @property
    def endpoints(self) -> str:
        """Where the server is."""
        return self._channel.endpoints

    @property
    def extensions(self) -> frozenset[str]:
        """What the server has beside the standard protocol, asked once."""
        return frozenset(self._description.extensions)

    @property
    def topics_per_call_max(self) -> int:
        """How many topics one call in columns may have rows of: one, where the server knows nothing of several."""
        return int(self._description.publish_topics_max) or 1

    @property
    def _description(self) -> v1.DescribeServerResponse:
        if self._described is None:
            try:
                self._described = self._channel.call(COLUMNS.methods["DescribeServer"], v1.DescribeServerRequest())
            except Unserved:
                self._described = v1.DescribeServerResponse()
        return self._described

    def message_types(self, topic: str) -> frozenset[str]:
        """The types of messages that a topic takes: NORMAL, FIFO, DELAY, TRANSACTION. Raises RequestRefused."""
        request = messaging.QueryRouteRequest(topic=v2.Resource(name=topic))
        route = self._channel.call(MESSAGING.methods["QueryRoute"], request)
        writable = (v2.Permission.WRITE, v2.Permission.READ_WRITE)
        queues = [queue for queue in route.message_queues if queue.permission in writable]
        if not queues:
            raise RequestRefused("FORBIDDEN", f"Topic {topic} at {self.endpoints} has no queue that may be written.")
        return frozenset(v2.MessageType.Name(kind) for queue in queues for kind in queue.accept_message_types)

    def start_publish(self, parts: TopicParts, rows: pa.RecordBatch, by_keys: bool) -> Callable[[], Any]:
        """Begins to send a batch in columns; what it returns waits until all of it is kept."""
        request = v1.PublishColumnsRequest(
            arrow_ipc=wire.write_stream(rows.schema, [rows]), queue_selector=_selector(by_keys), **_topics(parts)
        )
        return self._channel.start(COLUMNS.methods["PublishColumns"], request)

    def start_stage(
        self,
        transaction: TransactionId,
        stage_id: str,
        sequence: int,
        parts: TopicParts,
        rows: pa.RecordBatch,
        by_keys: bool,
        timeout_ms: int,
    ) -> Callable[[], Any]:
        """Begins to stage a batch; the answer tells whether its transaction was committed before."""
        request = stages.StageColumnsRequest(
            transaction=_transaction(transaction),
            stage_id=stage_id,
            sequence=sequence,
            arrow_ipc=wire.write_stream(rows.schema, [rows]),
            queue_selector=_selector(by_keys),
            timeout_ms=timeout_ms,
            **_topics(parts),
        )
        return self._channel.start(STAGES.methods["StageColumns"], request)

    def keep_stages(self, transaction: TransactionId, timeout_ms: int) -> None:
        """Lets the stages of a transaction live on."""
        request = stages.KeepStagesRequest(transaction=_transaction(transaction), timeout_ms=timeout_ms)
        self._channel.call(STAGES.methods["KeepStages"], request)

    def commit_stages(
        self,
        transaction: TransactionId,
        staged: Sequence[tuple[str, int]],
        patience_ms: int = 0,
        record: CommitRecord | None = None,
    ) -> CommitResponse:
        """Commits stages, each with its number of calls, and returns when all of it can be read. A transaction that was
        committed before, be it by an earlier asking whose answer was lost, is compared with ``record``.

        That of a large one takes longer than a request may, and a server whose disk is full stores its rows later:
        while the server answers, it is asked again for ``patience_ms``. Then BrokerUnavailable says that nothing is
        known; RequestRefused says that nothing was committed, with code :data:`ANOTHER_TRANSACTION` when another
        transaction has this number.
        """
        request = stages.CommitStagesRequest(
            transaction=_transaction(transaction),
            stages=[stages.CommittedStage(stage_id=stage_id, call_count=count) for stage_id, count in staged],
            record=None if record is None else stages.CommitRecord(**record._asdict()),
        )
        deadline_s = time.monotonic() + patience_ms / 1000
        while True:
            try:
                answer = self._channel.call(STAGES.methods["CommitStages"], request)
                return CommitResponse(answer.was_committed, answer.was_compared)
            except (BrokerUnavailable, RequestRefused) as error:
                if isinstance(error, RequestRefused) and error.code not in _UNSETTLED:
                    raise
                if time.monotonic() >= deadline_s:
                    raise BrokerUnavailable(str(error)) from None
                self._channel.call(COLUMNS.methods["DescribeServer"], v1.DescribeServerRequest())
                time.sleep(self._channel.connection.request_retry_interval_ms / 1000)

    def drop_stages(self, transaction: TransactionId) -> None:
        """Gives a transaction up."""
        self._channel.call(
            STAGES.methods["DropStages"], stages.DropStagesRequest(transaction=_transaction(transaction))
        )

    def start_send(self, topic: str, row: dict[str, Any]) -> Callable[[], Any]:
        """Begins to send one message by the standard protocol; ``row`` has the columns of the publish schema."""
        request = messaging.SendMessageRequest(messages=[_message(topic, row)])
        return self._channel.start(MESSAGING.methods["SendMessage"], request)


def get_producer(connection: Connection) -> Producer:
    """A producer over this process's channel for ``connection``."""
    return Producer(get_channel(connection))


def _transaction(transaction: TransactionId) -> stages.Transaction:
    return stages.Transaction(id=transaction.writer_id, batch_id=transaction.batch_id)


def _topics(parts: TopicParts) -> dict[str, Any]:
    """The fields of a request that say what its rows are of; a server that knows no parts understands one topic."""
    if len(parts) == 1:
        return {"topic": parts[0][0]}
    return {"parts": [v1.TopicPart(topic=topic, row_count=count) for topic, count in parts]}


def _selector(by_keys: bool) -> v1.QueueSelector:
    return v1.BY_KEYS if by_keys else v1.IN_TURN


def _message(topic: str, row: dict[str, Any]) -> v2.Message:
    system = v2.SystemProperties(
        message_id=uuid.uuid4().hex,
        tag=row.get("tags"),
        keys=row.get("keys") or (),
        message_group=row.get("messageGroup"),
        message_type=v2.MessageType.NORMAL,
        body_encoding=v2.Encoding.IDENTITY if row.get("bodyEncoding", 1) == 1 else v2.Encoding.GZIP,
    )
    system.born_timestamp.GetCurrentTime()
    if row.get("messageGroup") is not None:
        system.message_type = v2.MessageType.FIFO
    if row.get("deliveryTimestamp") is not None:
        system.message_type = v2.MessageType.DELAY
        system.delivery_timestamp.FromMicroseconds(row["deliveryTimestamp"])
    return v2.Message(
        topic=v2.Resource(name=topic),
        body=row["body"],
        system_properties=system,
        user_properties=dict(row.get("properties") or ()),
    )
