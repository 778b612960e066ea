"""Stages: messages that write tasks have sent, but that no commit has made readable yet.

Part of the broker's state. The message store keeps the rows themselves, which the commit log has written already; a
commit only says where they become readable. This module knows how many rows each call has staged for which queue, and
which transactions are committed. Delayed rows are the exception: they wait for the commit in a queue of a hidden topic,
``%STAGE%`` and the id of the stage, and are stored again after it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.stage_facts import (
    CallStaged,
    ColumnsStaged,
    CommitRecord,
    HeldCall,
    StagedCallStored,
    StagedPart,
    StagesCommitted,
    StagesEnded,
    StillStaged,
    TransactionId,
)

WRITES_REMEMBERED_MAX = 10_000
"""Remembered commits of writes without a query. Above this limit, the oldest are forgotten."""
DROPPED_REMEMBERED_MAX = 10_000
"""Remembered stages that retention dropped. Above this limit, the oldest are forgotten."""

CALL_BYTES = 700
"""The approximate memory of a staged call, without its parts."""
PART_BYTES = 64
"""The approximate memory of the rows of one call for one queue: where the log has them."""
_CALLS_PER_RUN = 128

StageFact = ColumnsStaged | CallStaged | StillStaged | StagesCommitted | StagedCallStored | StagesEnded


class StagedCall(NamedTuple):
    """A call as the broker holds it in memory.

    ``placed_count`` rows become readable at the commit. ``delayed_count`` rows are in the stage's own queue, from
    ``first_offset`` on. Their target queues are packed, because there may be thousands of them.
    """

    sequence: int
    placed_count: int
    byte_count: int
    timeout_ms: int
    state_bytes: int
    first_offset: int = 0
    delayed_count: int = 0
    packed_parts: bytes = b""

    @property
    def row_count(self) -> int:
        """The number of all rows."""
        return self.placed_count + self.delayed_count

    @property
    def parts(self) -> list[tuple[MessageQueue, int]]:
        """The target queues of the delayed rows in their order, each with its number of rows."""
        return [(MessageQueue(*queue), count) for queue, count in json.loads(zlib.decompress(self.packed_parts))]

    def merge(self, more: StagedCall) -> StagedCall:
        """Returns the call with its delayed rows, which are another fact."""
        return more._replace(
            placed_count=self.placed_count + more.placed_count,
            byte_count=self.byte_count + more.byte_count,
            state_bytes=self.state_bytes + more.state_bytes - CALL_BYTES,
        )

    def without_placed(self) -> StagedCall:
        """Returns the call with only its delayed rows, as it is after the commit."""
        return self._replace(placed_count=0, state_bytes=CALL_BYTES + len(self.packed_parts))


class Placed(NamedTuple):
    """What a stage has for one queue: rows, the bytes of their bodies, and their bytes as limits count them."""

    row_count: int = 0
    body_bytes: int = 0
    byte_count: int = 0

    def sum(self, more: tuple[int, int, int]) -> Placed:
        """Returns the sums with more rows."""
        return Placed(self[0] + more[0], self[1] + more[1], self[2] + more[2])


@dataclass(frozen=True)
class Stage:
    """The calls of one write task; of a committed stage, those whose delayed rows are not stored yet.

    ``placed`` has what the commit will make readable, by queue. Calls are grouped into runs that later versions of the
    stage share, so that a fact does not copy all calls.
    """

    transaction: TransactionId
    topics: frozenset[str] = frozenset()
    call_count: int = 0
    row_count: int = 0
    byte_count: int = 0
    state_bytes: int = 0
    is_committed: bool = False
    placed: Mapping[MessageQueue, Placed] = field(default_factory=dict)
    _runs: tuple[dict[int, StagedCall], ...] = ()

    def with_fact(self, fact: ColumnsStaged | CallStaged | StillStaged | StagesCommitted | StagedCallStored) -> Stage:
        """Returns the stage after one of its facts."""
        match fact:
            case ColumnsStaged(_, _, sequence, parts, timeout_ms):
                row_count, byte_count = (sum(values) for values in zip(*((p[1], p[3]) for p in parts), strict=True))
                held_call = HeldCall(sequence, row_count, byte_count, timeout_ms, len(parts))
                return self._with_call(_hold(held_call))._with_parts(parts)
            case CallStaged(_, _, sequence, first_offset, targets, timeout_ms, byte_count):
                packed = zlib.compress(json.dumps(targets, separators=(",", ":")).encode(), 1)
                count = sum(count for _, count in targets)
                state_bytes = CALL_BYTES + len(packed)
                call = StagedCall(sequence, 0, byte_count, timeout_ms, state_bytes, first_offset, count, packed)
                topics = {queue.topic for queue, _ in targets}
                return replace(self._with_call(call), topics=self._add_topics(topics))
            case StillStaged(_, _, calls, parts):
                stage = self
                for held in calls:
                    stage = stage._with_call(_hold(held))
                return stage._with_parts(parts)
            case StagesCommitted():
                return self._without_placed()
            case StagedCallStored(_, sequence):
                return self._without_first(sequence)

    def _with_call(self, call: StagedCall) -> Stage:
        runs, last = self._runs, self._runs[-1] if self._runs else {}
        known = next((run[call.sequence] for run in runs if call.sequence in run), None)
        if known is not None:
            runs = tuple({**run, call.sequence: known.merge(call)} if call.sequence in run else run for run in runs)
            return replace(self._changed_by(known, -1)._changed_by(known.merge(call), 1), _runs=runs)
        if runs and len(last) < _CALLS_PER_RUN:
            runs = (*runs[:-1], {**last, call.sequence: call})
        else:
            runs = (*runs, {call.sequence: call})
        return replace(self._changed_by(call, 1), _runs=runs)

    def _with_parts(self, parts: Iterable[StagedPart]) -> Stage:
        placed = dict(self.placed)
        for part in parts:
            placed[part.queue] = placed.get(part.queue, Placed()).sum(part[1:])
        return replace(self, placed=placed, topics=self._add_topics({part.queue.topic for part in parts}))

    def _add_topics(self, topics: Iterable[str]) -> frozenset[str]:
        return self.topics if self.topics.issuperset(topics) else self.topics.union(topics)

    def _without_placed(self) -> Stage:
        delayed = sorted(call.without_placed() for call in self.calls() if call.delayed_count)
        left = Stage(self.transaction, self.topics, is_committed=True, _runs=_as_runs(delayed))
        for call in delayed:
            left = left._changed_by(call, 1)
        return left

    def _without_first(self, sequence: int) -> Stage:
        first = self.first_call
        assert first.sequence == sequence, "calls are stored in order"
        run = dict(self._runs[0])
        del run[sequence]
        return replace(self._changed_by(first, -1), _runs=(run, *self._runs[1:]) if run else self._runs[1:])

    def _changed_by(self, call: StagedCall, sign: int) -> Stage:
        return replace(
            self,
            call_count=self.call_count + sign,
            row_count=self.row_count + sign * call.row_count,
            byte_count=self.byte_count + sign * call.byte_count,
            state_bytes=self.state_bytes + sign * call.state_bytes,
        )

    def calls(self) -> Iterator[StagedCall]:
        """Returns the calls: by sequence in a committed stage, in the order of arrival otherwise."""
        return (call for run in self._runs for call in run.values())

    @property
    def first_call(self) -> StagedCall:
        """The first of the calls."""
        return next(self.calls())

    @property
    def last_call(self) -> StagedCall:
        """The last of the calls."""
        run = self._runs[-1]
        return run[next(reversed(run))]

    def has(self, sequence: int) -> bool:
        """Whether the stage has the call with that sequence."""
        return any(sequence in run for run in self._runs)

    def to_facts(self, stage_id: str) -> Iterator[StillStaged | CallStaged]:
        """Yields facts from which a new stage gets the same calls."""
        if not self.is_committed:
            calls = tuple(map(_hold_placed, self.calls()))
            parts = tuple(StagedPart(queue, *placed) for queue, placed in self.placed.items())
            yield StillStaged(self.transaction, stage_id, calls, parts)
        for call in self.calls():
            if call.delayed_count:
                parts_of_call = tuple(call.parts)
                yield CallStaged(
                    self.transaction,
                    stage_id,
                    call.sequence,
                    call.first_offset,
                    parts_of_call,
                    call.timeout_ms,
                    call.byte_count,
                )


def _hold(call: HeldCall) -> StagedCall:
    sequence, row_count, byte_count, timeout_ms, part_count = call
    return StagedCall(sequence, row_count, byte_count, timeout_ms, CALL_BYTES + PART_BYTES * part_count)


def _hold_placed(call: StagedCall) -> HeldCall:
    """Returns a call without its delayed rows. The fact of these has the bytes of all rows."""
    byte_count = 0 if call.delayed_count else call.byte_count
    part_count = (call.state_bytes - CALL_BYTES - len(call.packed_parts)) // PART_BYTES
    return HeldCall(call.sequence, call.placed_count, byte_count, call.timeout_ms, part_count)


def _as_runs(calls: Sequence[StagedCall]) -> tuple[dict[int, StagedCall], ...]:
    starts = range(0, len(calls), _CALLS_PER_RUN)
    return tuple({call.sequence: call for call in calls[start : start + _CALLS_PER_RUN]} for start in starts)


class CommittedTransaction(NamedTuple):
    """The newest transaction that a query has committed."""

    number: int
    record: CommitRecord | None

    @staticmethod
    def after(known: CommittedTransaction | None, fact: StagesCommitted) -> CommittedTransaction | None:
        """Returns the newest transaction after a commit. The commit of an older one changes nothing."""
        number = fact.transaction.number
        if number is None or (known is not None and number <= known.number):
            return known
        return CommittedTransaction(number, fact.record)


class Stages:
    """All stages by id, and the committed transactions."""

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}
        self._committing: dict[str, None] = {}
        self.state_bytes = 0
        self.commit_count = 0
        """The commits since the start that made rows readable."""
        # The newest transaction of each query, kept for ever, and committed writes without a query, oldest first.
        self._newest: dict[str, CommittedTransaction] = {}
        self._writes: dict[str, None] = {}
        # The limit for which retention dropped each stage, oldest first.
        self._dropped: dict[str, str] = {}

    def all(self) -> Mapping[str, Stage]:
        """Returns the stages by their ids."""
        return self._stages

    def find(self, stage_id: str) -> Stage | None:
        """Returns the stage of that id, or None."""
        return self._stages.get(stage_id)

    def find_dropping_limit(self, stage_id: str) -> str | None:
        """Returns the limit for which retention dropped a stage, or None."""
        return self._dropped.get(stage_id)

    def has_committed(self, transaction: TransactionId) -> bool:
        """Whether a transaction, or a newer one of its query, was committed."""
        if transaction.number is None:
            return transaction.writer in self._writes
        newest = self.find_newest(transaction.writer)
        return newest is not None and newest.number >= transaction.number

    def find_newest(self, query: str) -> CommittedTransaction | None:
        """Returns the newest transaction that a query has committed, or None."""
        return self._newest.get(query)

    def list_committing(self) -> Iterable[str]:
        """Returns the ids of committed stages whose delayed rows are not all stored, in the order of their commits."""
        return self._committing

    def apply(self, fact: StageFact) -> None:
        """Applies a kept fact."""
        match fact:
            case ColumnsStaged(transaction, stage_id) | CallStaged(transaction, stage_id):
                self._put(stage_id, self._stages.get(stage_id, Stage(transaction)).with_fact(fact))
            case StillStaged(transaction, stage_id):
                self._put(stage_id, Stage(transaction).with_fact(fact))
            case StagesCommitted(_, stage_ids, _, splices):
                self.commit_count += bool(splices)
                self._add_commit(fact)
                for stage_id in stage_ids:
                    self._commit(stage_id, self._stages[stage_id].with_fact(fact))
            case StagedCallStored(stage_id):
                self._put(stage_id, self._stages[stage_id].with_fact(fact))
            case StagesEnded(stage_ids, limit):
                for stage_id in stage_ids:
                    self._end(stage_id)
                    if limit:
                        self._dropped[stage_id] = limit
                while len(self._dropped) > DROPPED_REMEMBERED_MAX:
                    del self._dropped[next(iter(self._dropped))]

    def _put(self, stage_id: str, stage: Stage) -> None:
        before = self._stages.get(stage_id)
        self._stages[stage_id] = stage
        self.state_bytes += stage.state_bytes - (0 if before is None else before.state_bytes)

    def _commit(self, stage_id: str, stage: Stage) -> None:
        if stage.call_count:
            self._put(stage_id, stage)
            self._committing[stage_id] = None
        else:
            self._end(stage_id)

    def _end(self, stage_id: str) -> None:
        stage = self._stages.pop(stage_id, None)
        self.state_bytes -= 0 if stage is None else stage.state_bytes
        self._committing.pop(stage_id, None)

    def _add_commit(self, fact: StagesCommitted) -> None:
        query = fact.transaction.writer
        newest = CommittedTransaction.after(self._newest.get(query), fact)
        if fact.transaction.number is not None and newest is not None:
            self._newest[query] = newest
            return
        self._writes[query] = None
        while len(self._writes) > WRITES_REMEMBERED_MAX:
            del self._writes[next(iter(self._writes))]

    def to_facts(self) -> list[Fact]:
        """Returns facts from which an empty state gets the same stages and commits."""
        facts: list[Fact] = [
            StagesCommitted(TransactionId(query, number), (), record)
            for query, (number, record) in self._newest.items()
        ]
        facts += [StagesCommitted(TransactionId(write, None), ()) for write in self._writes]
        for stage_id, stage in self._stages.items():
            facts += stage.to_facts(stage_id)
        facts += [StagesCommitted(self._stages[stage_id].transaction, (stage_id,)) for stage_id in self._committing]
        facts += [StagesEnded((stage_id,), limit) for stage_id, limit in self._dropped.items()]
        return facts
