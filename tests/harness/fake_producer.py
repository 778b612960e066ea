"""What a task of the sink asks of a producer, answered from a few lists and written down."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rmqpull_client.errors import RequestRefused, RmqpullError
from rmqpull_client.transports.grpc.producer import CommitRecord, CommitResponse, TopicParts, TransactionId


class FakeStageResponse(NamedTuple):
    is_committed: bool


@dataclass
class FakeProducer:
    """Takes every body but those that are ``bad``; ``kept`` has the calls that it took, ``log`` begins and ends."""

    bad: set[bytes] = field(default_factory=set)
    failure: RmqpullError | None = None
    is_committed: bool = False
    extensions: frozenset[str] = frozenset({"columns", "stages"})
    types: dict[str, set[str]] = field(default_factory=lambda: {"orders": {"NORMAL"}})
    topics_per_call_max: int = 1_000
    kept: list[list[bytes]] = field(default_factory=list)
    parts: list[TopicParts] = field(default_factory=list)
    properties: list[dict[str, str]] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    commits: list[tuple[TransactionId, Sequence[tuple[str, int]]]] = field(default_factory=list)
    records: list[CommitRecord | None] = field(default_factory=list)
    answer: CommitResponse = field(default_factory=lambda: CommitResponse(False, False))
    dropped: list[TransactionId] = field(default_factory=list)
    keeps: int = 0
    under_way: int = 0
    most_under_way: int = 0
    endpoints: str = "a:1"

    def query_message_types(self, topic: str) -> frozenset[str]:
        if topic not in self.types:
            raise RequestRefused("TOPIC_NOT_FOUND", f"No topic {topic}.")
        return frozenset(self.types[topic])

    def start_publish(self, parts: TopicParts, rows: pa.RecordBatch, by_keys: bool) -> Callable[[], Any]:
        return self._begun(rows.column("body").to_pylist(), rows, None, parts)

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
        return self._begun(rows.column("body").to_pylist(), rows, sequence, parts)

    def start_send(self, topic: str, row: dict[str, Any]) -> Callable[[], Any]:
        return self._begun([row["body"]], pa.record_batch({"properties": [row.get("properties")]}), None)

    def _begun(
        self, bodies: list[bytes], rows: pa.RecordBatch, place: int | None, parts: TopicParts = ()
    ) -> Callable[[], Any]:
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)

        def answer() -> Any:
            self.under_way -= 1
            if self.failure is not None:
                raise self.failure
            if self.bad.intersection(bodies):
                raise RequestRefused("ILLEGAL_MESSAGE_TAG", "A tag is illegal.")
            if self.is_committed:
                return FakeStageResponse(True)
            self.kept.append(bodies)
            self.parts.append(parts)
            self.places += [] if place is None else [place]
            if "properties" in rows.schema.names:
                self.properties += [dict(own or ()) for own in rows.column("properties").to_pylist()]
            return FakeStageResponse(False)

        return answer

    def keep_stages(self, transaction: TransactionId, timeout_ms: int) -> None:
        self.keeps += 1

    def commit_stages(
        self,
        transaction: TransactionId,
        staged: Sequence[tuple[str, int]],
        patience_ms: int,
        record: CommitRecord | None = None,
    ) -> CommitResponse:
        if self.failure is not None:
            raise self.failure
        self.commits.append((transaction, staged))
        self.records.append(record)
        return self.answer

    def drop_stages(self, transaction: TransactionId) -> None:
        if self.failure is not None:
            raise self.failure
        self.dropped.append(transaction)

    @property
    def in_order(self) -> list[bytes]:
        """All bodies as a commit puts them: by the numbers of their calls, where they have one."""
        calls = [entry for _, entry in sorted(zip(self.places, self.kept, strict=True))] if self.places else self.kept
        return [body for call in calls for body in call]
