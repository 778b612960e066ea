"""Sends rows over gRPC, in transactions if the server has them."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from rmqpull_client.errors import BrokerBusy, BrokerFailed, BrokerUnavailable, RequestRefused, Unserved
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.port import (
    SPREAD_EVENLY,
    CommitRecord,
    CommitResponse,
    ProducerAbilities,
    SliceRows,
    TopicParts,
    TransactionId,
)
from rmqpull_client.transports.property_rules import KEPT_BY_PROXIES, KEPT_IN_COLUMNS
from rmqpull_proto import columns as wire
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rmqpull.v1 import stages_pb2 as stages
from rmqpull_proto.rpc import COLUMNS, MESSAGING, STAGES

_NAMED_ALWAYS = ("body", "brokerName", "queueId")
"""Columns that the server requires, or whose absence it refuses."""


class GrpcProducer:
    """See :class:`rmqpull_client.transports.port.Producer`."""

    def __init__(self, channel: BrokerChannel) -> None:
        self._channel = channel
        self._abilities: ProducerAbilities | None = None

    @property
    def abilities(self) -> ProducerAbilities:
        """What the server can do, according to its extensions of the standard protocol. The server is asked once."""
        if self._abilities is None:
            try:
                described = self._channel.call(COLUMNS.methods["DescribeServer"], v1.DescribeServerRequest())
            except Unserved:
                described = v1.DescribeServerResponse()
            self._abilities = _make_abilities(self._channel.endpoints, described)
        return self._abilities

    def query_message_types(self, topic: str) -> frozenset[str]:
        """Returns the message types that a topic accepts: NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY."""
        queues = self._list_queues(topic)
        return frozenset(v2.MessageType.Name(kind) for queue in queues for kind in queue.accept_message_types)

    def count_queues(self, topic: str) -> int:
        """Returns the number of queues of a topic that producers see."""
        return len(self._list_queues(topic))

    def _list_queues(self, topic: str) -> list[v2.MessageQueue]:
        request = messaging.QueryRouteRequest(topic=v2.Resource(name=topic))
        route = self._channel.call(MESSAGING.methods["QueryRoute"], request)
        writable = (v2.Permission.WRITE, v2.Permission.READ_WRITE)
        queues = [queue for queue in route.message_queues if queue.permission in writable]
        if not queues:
            raise RequestRefused("FORBIDDEN", f"Topic {topic} at {self._channel.endpoints} has no writable queue.")
        return queues

    def start_publish(
        self, parts: TopicParts, rows: pa.RecordBatch, by_keys: bool, slice_rows: SliceRows = SPREAD_EVENLY
    ) -> Callable[[], Any]:
        """Sends a batch in columns. The returned function waits until the broker has stored it."""
        request = v1.PublishColumnsRequest(
            arrow_ipc=_write_rows(rows),
            queue_selector=_encode_selector(by_keys),
            **_encode_topics(parts, slice_rows),
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
        slice_rows: SliceRows = SPREAD_EVENLY,
    ) -> Callable[[], Any]:
        """See :meth:`rmqpull_client.transports.port.Producer.start_stage`."""
        request = stages.StageColumnsRequest(
            transaction=_encode_transaction(transaction),
            stage_id=stage_id,
            sequence=sequence,
            arrow_ipc=_write_rows(rows),
            queue_selector=_encode_selector(by_keys),
            timeout_ms=timeout_ms,
            **_encode_topics(parts, slice_rows),
        )
        return self._channel.start(STAGES.methods["StageColumns"], request)

    def keep_stages(self, transaction: TransactionId, timeout_ms: int) -> None:
        """Restarts the timeout of the stages of a transaction."""
        request = stages.KeepStagesRequest(transaction=_encode_transaction(transaction), timeout_ms=timeout_ms)
        self._channel.call(STAGES.methods["KeepStages"], request)

    def commit_stages(
        self,
        transaction: TransactionId,
        staged: Sequence[tuple[str, int]],
        patience_ms: int = 0,
        record: CommitRecord | None = None,
        row_count: int | None = None,
        refuse_gap: bool = False,
    ) -> CommitResponse:
        """See :meth:`rmqpull_client.transports.port.Producer.commit_stages`."""
        request = stages.CommitStagesRequest(
            transaction=_encode_transaction(transaction),
            stages=[stages.CommittedStage(stage_id=stage_id, call_count=count) for stage_id, count in staged],
            record=None if record is None else stages.CommitRecord(**record._asdict()),
            row_count=row_count,
            refuse_gap=refuse_gap,
        )
        deadline_s = time.monotonic() + patience_ms / 1000
        while True:
            try:
                response = self._channel.call(STAGES.methods["CommitStages"], request)
                return CommitResponse(
                    response.was_committed, response.was_compared, response.missing_count, response.is_refused
                )
            except (BrokerUnavailable, BrokerBusy, BrokerFailed) as error:
                if time.monotonic() >= deadline_s:
                    raise BrokerUnavailable(str(error)) from None
                self._channel.call(COLUMNS.methods["DescribeServer"], v1.DescribeServerRequest())
                time.sleep(self._channel.connection.request_retry_interval_ms / 1000)

    def drop_stages(self, transaction: TransactionId) -> None:
        """Deletes the stages of a transaction."""
        self._channel.call(
            STAGES.methods["DropStages"], stages.DropStagesRequest(transaction=_encode_transaction(transaction))
        )

    def start_send(self, topic: str, row: dict[str, Any]) -> Callable[[], Any]:
        """See :meth:`rmqpull_client.transports.port.Producer.start_send`."""
        request = messaging.SendMessageRequest(messages=[_make_message(topic, row)])
        return self._channel.start(MESSAGING.methods["SendMessage"], request)


def _make_abilities(endpoints: str, described: v1.DescribeServerResponse) -> ProducerAbilities:
    lacks = {
        name: None if name in described.extensions else f"it has no extension {name} of rmqpull.v1"
        for name in ("columns", "stages")
    }
    return ProducerAbilities(
        server=f"the server at {endpoints}",
        no_columns=lacks["columns"],
        no_stages=lacks["stages"],
        create_topic="rmqpull-broker topic create {topic}",
        allow_writes="rmqpull-broker topic update {topic} --perm 6",
        compress_types=frozenset({"ZLIB"} if lacks["columns"] else {"ZLIB", "LZ4", "ZSTD"}),
        property_rules=KEPT_BY_PROXIES if lacks["columns"] else KEPT_IN_COLUMNS,
        topics_per_call_max=int(described.publish_topics_max) or 1,  # an older server takes one
        tells_commit_gaps=described.tells_commit_gaps,
        takes_priorities=described.takes_priorities or lacks["columns"] is not None,
        takes_slice_rows=lacks["columns"] is None,
    )


def _write_rows(rows: pa.RecordBatch) -> bytes:
    """Writes rows without the columns that are all null, which a server takes as null when they are absent."""
    columns = zip(rows.schema.names, rows.columns, strict=True)
    names = [name for name, column in columns if name in _NAMED_ALWAYS or column.null_count < len(column)]
    given = rows.select(names)
    return wire.write_stream(given.schema, [given])


def _encode_transaction(transaction: TransactionId) -> stages.Transaction:
    return stages.Transaction(id=transaction.writer_id, batch_id=transaction.batch_id)


def _encode_topics(parts: TopicParts, slice_rows: SliceRows) -> dict[str, Any]:
    """Returns the fields of a request that name its topics. Servers without ``parts`` understand a single topic."""
    if len(parts) == 1:
        topic = parts[0][0]
        return {"topic": topic, "slice_rows_min": slice_rows.get(topic, 0)}
    return {
        "parts": [
            v1.TopicPart(topic=topic, row_count=count, slice_rows_min=slice_rows.get(topic, 0))
            for topic, count in parts
        ]
    }


def _encode_selector(by_keys: bool) -> v1.QueueSelector:
    return v1.BY_KEYS if by_keys else v1.IN_TURN


def _make_message(topic: str, row: dict[str, Any]) -> v2.Message:
    system = v2.SystemProperties(
        message_id=uuid.uuid4().hex,
        tag=row.get("tags"),
        keys=row.get("keys") or (),
        message_group=row.get("messageGroup"),
        message_type=v2.MessageType.NORMAL,
        body_encoding=v2.Encoding.IDENTITY if row.get("bodyEncoding", 1) == 1 else v2.Encoding.GZIP,
    )
    system.born_timestamp.GetCurrentTime()
    if row.get("priority") is not None:
        system.message_type, system.priority = v2.MessageType.PRIORITY, row["priority"]
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
