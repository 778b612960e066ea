"""Stages: messages that write tasks have sent, but that no commit has made readable yet.

Part of the broker's state. A stage stores its rows in a queue of a hidden topic, ``%STAGE%`` and its id. So the log,
the queue files and snapshots hold them like all other messages. This module knows their target queues, and which
transactions are committed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import (
    CallStaged,
    CommitRecord,
    Fact,
    StagedCallStored,
    StagesCommitted,
    StagesEnded,
    TransactionId,
)

WRITES_REMEMBERED_MAX = 10_000
"""Remembered commits of writes without a query. Above this limit, the oldest are forgotten."""

CALL_BYTES = 700
"""The approximate memory of a staged call, without its packed parts."""
_CALLS_PER_RUN = 128


class StagedCall(NamedTuple):
    """A call as the broker holds it in memory. The target queues are packed: there may be thousands of them."""

    sequence: int
    first_offset: int
    row_count: int
    byte_count: int
    timeout_ms: int
    packed_parts: bytes

    @property
    def parts(self) -> list[tuple[MessageQueue, int]]:
        """The target queues in the order of the rows, each with its number of rows."""
        return [(MessageQueue(*queue), count) for queue, count in json.loads(zlib.decompress(self.packed_parts))]

    @property
    def state_bytes(self) -> int:
        """The approximate memory that the call takes."""
        return CALL_BYTES + len(self.packed_parts)


@dataclass(frozen=True)
class Stage:
    """The calls of one write task; of a committed stage, those that are not stored yet.

    Calls are grouped into runs that later versions of the stage share, so that a fact does not copy all calls.
    """

    transaction: TransactionId
    topics: frozenset[str] = frozenset()
    call_count: int = 0
    row_count: int = 0
    byte_count: int = 0
    state_bytes: int = 0
    is_committed: bool = False
    _runs: tuple[dict[int, StagedCall], ...] = ()

    def with_fact(self, fact: CallStaged | StagesCommitted | StagedCallStored) -> Stage:
        """Returns the stage after one of its facts."""
        match fact:
            case CallStaged():
                return self._with_call(fact)
            case StagesCommitted():
                return replace(self, is_committed=True, _runs=_as_runs(sorted(self.calls())))
            case StagedCallStored(_, sequence):
                return self._without_first(sequence)

    def _with_call(self, fact: CallStaged) -> Stage:
        topics = {queue.topic for queue, _ in fact.parts}
        call = StagedCall(
            fact.sequence,
            fact.first_offset,
            sum(count for _, count in fact.parts),
            fact.byte_count,
            fact.timeout_ms,
            zlib.compress(json.dumps(fact.parts, separators=(",", ":")).encode(), 1),
        )
        runs = self._runs
        if runs and len(runs[-1]) < _CALLS_PER_RUN:
            runs = (*runs[:-1], {**runs[-1], call.sequence: call})
        else:
            runs = (*runs, {call.sequence: call})
        return replace(
            self._changed_by(call, 1), topics=self.topics if topics <= self.topics else self.topics | topics, _runs=runs
        )

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

    def to_facts(self, stage_id: str) -> Iterator[CallStaged]:
        """Yields facts from which a new stage gets the same calls."""
        for call in self.calls():
            parts = tuple(call.parts)
            yield CallStaged(
                self.transaction, stage_id, call.sequence, call.first_offset, parts, call.timeout_ms, call.byte_count
            )


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
        # The newest transaction of each query, kept for ever, and committed writes without a query, oldest first.
        self._newest: dict[str, CommittedTransaction] = {}
        self._writes: dict[str, None] = {}

    def all(self) -> Mapping[str, Stage]:
        """Returns the stages by their ids."""
        return self._stages

    def find(self, stage_id: str) -> Stage | None:
        """Returns the stage of that id, or None."""
        return self._stages.get(stage_id)

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
        """Returns the ids of committed stages that are not completely stored, in the order of their commits."""
        return self._committing

    def apply(self, fact: CallStaged | StagesCommitted | StagedCallStored | StagesEnded) -> None:
        """Applies a kept fact."""
        match fact:
            case CallStaged(transaction, stage_id):
                self._put(stage_id, self._stages.get(stage_id, Stage(transaction)).with_fact(fact))
            case StagesCommitted(_, stage_ids):
                self._add_commit(fact)
                for stage_id in stage_ids:
                    self._put(stage_id, self._stages[stage_id].with_fact(fact))
                    self._committing[stage_id] = None
            case StagedCallStored(stage_id):
                self._put(stage_id, self._stages[stage_id].with_fact(fact))
            case StagesEnded(stage_ids):
                for stage_id in stage_ids:
                    self.state_bytes -= self._stages.pop(stage_id).state_bytes
                    self._committing.pop(stage_id, None)

    def _put(self, stage_id: str, stage: Stage) -> None:
        before = self._stages.get(stage_id)
        self._stages[stage_id] = stage
        self.state_bytes += stage.state_bytes - (0 if before is None else before.state_bytes)

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
        return facts
