"""A fake producer for tasks of the sink, which keeps everything in lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rmqpull_client.errors import RequestRefused, RmqpullError, RowsRefused, TopicNotFound
from rmqpull_client.transports.port import (
    SPREAD_EVENLY,
    CommitRecord,
    CommitResponse,
    ProducerAbilities,
    SliceRows,
    TopicParts,
    TransactionId,
)
from rmqpull_client.transports.property_rules import KEPT_IN_COLUMNS


class FakeStageResponse(NamedTuple):
    is_committed: bool


@dataclass
class FakeProducer:
    """Stores every body except ``bad`` ones: ``stored`` has the bodies of each call, in the order in which they end.

    A call with a bad body is refused as a whole, or only its bad rows if ``stores_the_others``.
    """

    bad: set[bytes] = field(default_factory=set)
    stores_the_others: bool = False
    failure: RmqpullError | None = None
    is_committed: bool = False
    extensions: frozenset[str] = frozenset({"columns", "stages"})
    types: dict[str, set[str]] = field(default_factory=lambda: {"orders": {"NORMAL"}})
    topics_per_call_max: int = 1_000
    stored: list[list[bytes]] = field(default_factory=list)
    parts: list[TopicParts] = field(default_factory=list)
    properties: list[dict[str, str]] = field(default_factory=list)
    sequences: list[int] = field(default_factory=list)
    commits: list[tuple[TransactionId, Sequence[tuple[str, int]]]] = field(default_factory=list)
    records: list[CommitRecord | None] = field(default_factory=list)
    row_counts: list[int | None] = field(default_factory=list)
    gap_refusals: list[bool] = field(default_factory=list)
    tells_commit_gaps: bool = True
    takes_priorities: bool = True
    response: CommitResponse = field(default_factory=lambda: CommitResponse(False, False))
    dropped: list[TransactionId] = field(default_factory=list)
    keeps: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    keeps_order: bool = False
    takes_slice_rows: bool = True
    queue_count: int = 4
    counted: list[str] = field(default_factory=list)
    slice_rows: list[SliceRows] = field(default_factory=list)

    @property
    def abilities(self) -> ProducerAbilities:
        return ProducerAbilities(
            server="the server at a:1",
            no_columns=None if "columns" in self.extensions else "it has no columns",
            no_stages=None if "stages" in self.extensions else "it has no stages",
            create_topic="create {topic}",
            allow_writes="allow {topic}",
            compress_types=frozenset({"ZLIB", "LZ4", "ZSTD"} if "columns" in self.extensions else {"ZLIB"}),
            property_rules=KEPT_IN_COLUMNS,
            topics_per_call_max=self.topics_per_call_max,
            tells_commit_gaps=self.tells_commit_gaps,
            takes_priorities=self.takes_priorities,
            keeps_order=self.keeps_order,
            takes_slice_rows=self.takes_slice_rows and "columns" in self.extensions,
        )

    def query_message_types(self, topic: str) -> frozenset[str]:
        if topic not in self.types:
            raise TopicNotFound("TOPIC_NOT_FOUND", f"No topic {topic}.")
        return frozenset(self.types[topic])

    def count_queues(self, topic: str) -> int:
        self.counted.append(topic)
        return self.queue_count

    def start_publish(
        self, parts: TopicParts, rows: pa.RecordBatch, by_keys: bool, slice_rows: SliceRows = SPREAD_EVENLY
    ) -> Callable[[], Any]:
        self.slice_rows.append(slice_rows)
        return self._start(rows.column("body").to_pylist(), rows, None, parts)

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
        self.slice_rows.append(slice_rows)
        return self._start(rows.column("body").to_pylist(), rows, sequence, parts)

    def start_send(self, topic: str, row: dict[str, Any]) -> Callable[[], Any]:
        return self._start([row["body"]], pa.record_batch({"properties": [row.get("properties")]}), None)

    def _start(
        self, bodies: list[bytes], rows: pa.RecordBatch, sequence: int | None, parts: TopicParts = ()
    ) -> Callable[[], Any]:
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)

        def wait() -> Any:
            self.in_flight -= 1
            if self.failure is not None:
                raise self.failure
            refused = {index: "A tag is illegal." for index, body in enumerate(bodies) if body in self.bad}
            if refused and not self.stores_the_others:
                raise RequestRefused("ILLEGAL_MESSAGE_TAG", "A tag is illegal.")
            if self.is_committed:
                return FakeStageResponse(True)
            self.stored.append([body for index, body in enumerate(bodies) if index not in refused])
            if refused:
                raise RowsRefused("MESSAGE_ILLEGAL", "A tag is illegal.", refused)
            self.parts.append(parts)
            self.sequences += [] if sequence is None else [sequence]
            if "properties" in rows.schema.names:
                self.properties += [dict(own or ()) for own in rows.column("properties").to_pylist()]
            return FakeStageResponse(False)

        return wait

    def keep_stages(self, transaction: TransactionId, timeout_ms: int) -> None:
        self.keeps += 1

    def commit_stages(
        self,
        transaction: TransactionId,
        staged: Sequence[tuple[str, int]],
        patience_ms: int = 0,
        record: CommitRecord | None = None,
        row_count: int | None = None,
        refuse_gap: bool = False,
    ) -> CommitResponse:
        if self.failure is not None:
            raise self.failure
        self.commits.append((transaction, staged))
        self.records.append(record)
        self.row_counts.append(row_count)
        self.gap_refusals.append(refuse_gap)
        return self.response

    def drop_stages(self, transaction: TransactionId) -> None:
        if self.failure is not None:
            raise self.failure
        self.dropped.append(transaction)

    @property
    def in_order(self) -> list[bytes]:
        """All bodies in the order of a commit: by the sequence numbers of their calls, if they have any."""
        calls = self.stored
        if self.sequences:
            calls = [call for _, call in sorted(zip(self.sequences, self.stored, strict=True))]
        return [body for call in calls for body in call]
