"""Stages: messages that writers have handed over and nobody has committed yet. Part of the broker's state.

A stage keeps its rows in a queue of a hidden topic, ``%STAGE%`` and its id, so that log, queue files and snapshots hold
them as they hold all messages; what is said here is where they are meant to go, and which batches are committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rmqpull_broker.core.facts import BatchId, CallStaged, Fact, StagedCallStored, StagesCommitted, StagesEnded

STAGE_PREFIX = "%STAGE%"
"""What the names of hidden topics begin with; no client may name a topic so."""
WRITES_REMEMBERED_MAX = 10_000
"""Committed writes that are no part of a query: beyond it the oldest are forgotten."""


@dataclass(frozen=True)
class Stage:
    """What one attempt of one writer has handed over; of a committed stage, what is still to be stored."""

    batch: BatchId
    calls: tuple[CallStaged, ...] = ()
    is_committed: bool = False

    def with_fact(self, fact: CallStaged | StagesCommitted | StagedCallStored) -> Stage:
        """The stage after a fact of its own."""
        match fact:
            case CallStaged():
                return replace(self, calls=(*self.calls, fact))
            case StagesCommitted():
                return replace(self, is_committed=True, calls=tuple(sorted(self.calls, key=lambda call: call.sequence)))
            case StagedCallStored(_, sequence):
                assert self.calls[0].sequence == sequence, "calls are stored in their order"
                return replace(self, calls=self.calls[1:])

    def has(self, sequence: int) -> bool:
        """Whether the call of that number was taken in."""
        return any(call.sequence == sequence for call in self.calls)


class Stages:
    """All stages by their ids, the committed ones in the order in which they are stored."""

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}
        self._committing: dict[str, None] = {}
        self.call_count = 0
        # The newest committed batch of each query, for ever; and committed writes, by age.
        self._newest: dict[str, int] = {}
        self._writes: dict[str, None] = {}

    def all(self) -> Mapping[str, Stage]:
        """The stages by their ids."""
        return self._stages

    def find(self, stage_id: str) -> Stage | None:
        """The stage of that id."""
        return self._stages.get(stage_id)

    def has_committed(self, batch: BatchId) -> bool:
        """Whether a batch, or a newer one of its query, was committed."""
        if batch.number is None:
            return batch.writer in self._writes
        return self._newest.get(batch.writer, -1) >= batch.number

    def committing(self) -> Iterable[str]:
        """The ids of committed stages of which something is still to be stored, in the order of their commits."""
        return self._committing

    def apply(self, fact: CallStaged | StagesCommitted | StagedCallStored | StagesEnded) -> None:
        """Takes in a kept fact."""
        match fact:
            case CallStaged(batch, stage_id):
                self._stages[stage_id] = self._stages.get(stage_id, Stage(batch)).with_fact(fact)
                self.call_count += 1
            case StagesCommitted(batch, stage_ids):
                self._remember(batch)
                for stage_id in stage_ids:
                    self._stages[stage_id] = self._stages[stage_id].with_fact(fact)
                    self._committing[stage_id] = None
            case StagedCallStored(stage_id):
                self._stages[stage_id] = self._stages[stage_id].with_fact(fact)
                self.call_count -= 1
            case StagesEnded(stage_ids):
                for stage_id in stage_ids:
                    self.call_count -= len(self._stages.pop(stage_id).calls)
                    self._committing.pop(stage_id, None)

    def _remember(self, batch: BatchId) -> None:
        if batch.number is not None:
            self._newest[batch.writer] = max(batch.number, self._newest.get(batch.writer, -1))
            return
        self._writes[batch.writer] = None
        while len(self._writes) > WRITES_REMEMBERED_MAX:
            del self._writes[next(iter(self._writes))]

    def to_facts(self) -> list[Fact]:
        """Facts that give an empty state all of this."""
        facts: list[Fact] = [StagesCommitted(BatchId(query, number), ()) for query, number in self._newest.items()]
        facts += [StagesCommitted(BatchId(write, None), ()) for write in self._writes]
        facts += [call for stage in self._stages.values() for call in stage.calls]
        facts += [StagesCommitted(self._stages[stage_id].batch, (stage_id,)) for stage_id in self._committing]
        return facts
