"""Rows that wait for the commit of their stage: where the log has them, by stage and target queue.

The calls of a stage may arrive in any order, and their rows become readable in the order of the sequence. So the rows
of a call that came too early are held until the calls before it are here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate, repeat
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage, MessageQueue
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.core.state.stage_facts import ColumnsStaged
from rmqpull_broker.store.log.logged_columns import locate_parts
from rmqpull_broker.store.queues.chunks import CHUNK_ROWS_MAX, HeldRows, RunPart, RunParts, span

QueueParts = list[tuple[MessageQueue, RunPart]]


class StagedIndex(NamedTuple):
    """A stage as a snapshot describes it: where its rows are, in the order of the calls, and the calls that came early.

    ``next_sequence`` is the sequence of the call that continues ``parts``.
    """

    stage_id: str
    written: LogRange
    written_ms: int
    next_sequence: int
    parts: Sequence[tuple[MessageQueue, RunPart]]
    held: Mapping[int, Sequence[tuple[MessageQueue, RunPart]]]


class StagedRun:
    """The rows of stages for one queue, in order. ``segment_ends`` has the end of the last part in each segment."""

    def __init__(self) -> None:
        self.parts = RunParts()
        self.row_count = self.byte_count = 0
        self.segment_ends: dict[int, int] = {}

    @property
    def is_in_memory(self) -> bool:
        """Whether there is no log."""
        return -1 in self.segment_ends

    def add(self, parts: Iterable[RunPart]) -> None:
        """Adds parts at the end."""
        for part in parts:
            self.row_count += part.row_count
            self.byte_count += part.size
            self.parts.append(part)
            self.segment_ends[part.segment] = self.row_count


class _Stage:
    def __init__(self, written: LogRange) -> None:
        self.written = written
        self.written_ms = 0
        self.next_sequence = 0
        self.runs: dict[MessageQueue, StagedRun] = {}
        self.held: dict[int, QueueParts] = {}
        self.byte_count = 0

    def add(self, sequence: int, parts: QueueParts) -> None:
        self.held[sequence] = parts
        while (following := self.held.pop(self.next_sequence, None)) is not None:
            self.append(following)
            self.next_sequence += 1

    def end_calls(self) -> None:
        """Appends the calls that were held. Those before them will never come: a stage has as many as it says."""
        for sequence in sorted(self.held):
            self.append(self.held.pop(sequence))

    def append(self, parts: QueueParts) -> None:
        for queue, part in parts:
            self.runs.setdefault(queue, StagedRun()).add([part])

    def join_into(self, runs: dict[MessageQueue, StagedRun]) -> Iterator[None]:
        """Appends the rows to those of other stages, one queue in each step."""
        for queue, run in list(self.runs.items()):
            runs.setdefault(queue, StagedRun()).add(run.parts)
            yield

    def list_parts(self) -> Iterator[tuple[MessageQueue, RunPart]]:
        for queue, run in self.runs.items():
            yield from ((queue, part) for part in run.parts)

    @property
    def first_segment(self) -> int:
        """The oldest segment with rows of this stage."""
        segments = [segment for run in self.runs.values() for segment in run.segment_ends]
        segments += [part.segment for parts in self.held.values() for _, part in parts]
        return min(segments, default=-1)


class JoinedStages(NamedTuple):
    """The rows of stages that are committed together, by queue."""

    written: LogRange
    runs: Mapping[MessageQueue, StagedRun]


_JoinKey = list[tuple[_Stage, int]]
"""Stages, and the sequences of their next calls: they have the same rows while both are the same."""


class StagedRows:
    """The rows of all open stages. ``byte_count`` is the memory that they take: all of it without a log."""

    def __init__(self) -> None:
        self._stages: dict[str, _Stage] = {}
        self._joined: tuple[_JoinKey, JoinedStages] | None = None
        self.byte_count = 0

    def add(self, staged: ColumnsStaged, written: LogRange) -> None:
        """Adds the rows of one call, which the log keeps at ``written``."""
        stage = self._stages.get(staged.stage_id)
        if stage is None:
            stage = self._stages[staged.stage_id] = _Stage(written)
        stage.written = span(stage.written, written)
        stage.written_ms = max(stage.written_ms, staged.written_ms)
        stage.add(staged.sequence, _list_parts(staged))
        if not staged.messages:
            stage.byte_count += staged.batch.nbytes
            self.byte_count += staged.batch.nbytes

    def join(self, stage_ids: Sequence[str]) -> Iterator[None]:
        """Joins the rows of stages in steps, so that :meth:`take` need not do it."""
        key = self._make_key(stage_ids)
        stages = [stage for stage, _ in key]
        if any(stage.held for stage in stages):
            return  # calls are missing, so the commit will be refused; or they are numbered in another way
        runs: dict[MessageQueue, StagedRun] = {}
        for stage in stages:
            for _ in stage.join_into(runs):
                yield
        for queue, run in runs.items():
            if run.is_in_memory and run.parts.is_scattered:
                for merged in _merge_small(run):
                    runs[queue] = merged or run
                    yield
        if stages and key == self._make_key(stage_ids):
            self._joined = key, JoinedStages(_span_all(stages), runs)

    def _make_key(self, stage_ids: Sequence[str]) -> _JoinKey:
        stages = (self._stages.get(stage_id) for stage_id in stage_ids)
        return [(stage, stage.next_sequence) for stage in stages if stage is not None]

    def take(self, stage_ids: Sequence[str]) -> JoinedStages | None:
        """Removes stages and returns their rows, those of the first stage first. None if they have none."""
        key, joined = self._make_key(stage_ids), self._joined
        stages = [stage for stage_id in stage_ids if (stage := self._remove(stage_id)) is not None]
        if joined is not None and joined[0] == key and not any(stage.held for stage in stages):
            return joined[1]
        for stage in stages:
            stage.end_calls()
        if len(stages) == 1:
            return JoinedStages(stages[0].written, stages[0].runs)
        runs: dict[MessageQueue, StagedRun] = {}
        for stage in stages:
            for _ in stage.join_into(runs):
                pass
        return JoinedStages(_span_all(stages), runs) if stages else None

    def drop(self, stage_ids: Iterable[str]) -> None:
        """Removes stages and their rows."""
        for stage_id in stage_ids:
            self._remove(stage_id)

    def _remove(self, stage_id: str) -> _Stage | None:
        stage = self._stages.pop(stage_id, None)
        if stage is not None:
            self.byte_count -= stage.byte_count
            if self._joined is not None and any(stage is joined for joined, _ in self._joined[0]):
                self._joined = None
        return stage

    def list_queues(self, stage_ids: Iterable[str]) -> set[MessageQueue]:
        """Returns the target queues of stages."""
        stages = (self._stages.get(stage_id) for stage_id in stage_ids)
        return {queue for stage in stages if stage is not None for queue in stage.runs}

    def find_before(self, segment: int) -> list[str]:
        """Returns the stages that have rows in segments before this one."""
        return [stage_id for stage_id, stage in self._stages.items() if stage.first_segment < segment]

    def list_held(self) -> list[tuple[str, HeldRows]]:
        """Returns the ids of stages, in order, and their rows in memory, which have no offsets yet."""
        return [
            (stage_id, HeldRows(0, stage.written.until_position, stage.written_ms, stage.byte_count))
            for stage_id, stage in sorted(self._stages.items())
        ]

    def list_index(self) -> list[StagedIndex]:
        """Returns what a snapshot holds of each stage."""
        return [
            StagedIndex(
                stage_id,
                stage.written,
                stage.written_ms,
                stage.next_sequence,
                list(stage.list_parts()),
                {sequence: list(parts) for sequence, parts in stage.held.items()},
            )
            for stage_id, stage in self._stages.items()
        ]

    def restore(self, index: Iterable[StagedIndex]) -> None:
        """Fills this empty object from a snapshot."""
        for stage_id, written, written_ms, next_sequence, parts, held in index:
            stage = self._stages[stage_id] = _Stage(written)
            stage.written_ms, stage.next_sequence = written_ms, next_sequence
            stage.append(list(parts))
            stage.held = {sequence: list(of_call) for sequence, of_call in held.items()}


def _span_all(stages: Sequence[_Stage]) -> LogRange:
    return reduce(span, (stage.written for stage in stages))


def _list_parts(staged: ColumnsStaged) -> QueueParts:
    """Returns where the rows of a call are: in the log, or in memory."""
    counts = [part.row_count for part in staged.parts]
    places: Iterable[tuple[LoggedMessage | pa.RecordBatch, int]]
    if staged.messages:
        places = locate_parts(counts, staged.messages)
    else:
        places = zip(repeat(staged.batch), accumulate(counts, initial=0))
    return [
        (part.queue, RunPart(message, begin, part.row_count, part.byte_count))
        for part, (message, begin) in zip(staged.parts, places, strict=False)
    ]


def _merge_small(run: StagedRun) -> Iterator[StagedRun | None]:
    """Yields, in steps and at last, a run in memory with larger parts: nothing else would merge them."""
    merged, waiting, row_count = StagedRun(), list[RunPart](), 0
    for part in run.parts:
        waiting.append(part)
        row_count += part.row_count
        if row_count >= CHUNK_ROWS_MAX:
            merged.add([_merge(waiting)])
            waiting, row_count = [], 0
            yield None
    if waiting:
        merged.add([_merge(waiting)])
    yield merged


def _merge(parts: Sequence[RunPart]) -> RunPart:
    rows = columns.concat_batches([part.read(None) for part in parts])
    return RunPart(rows, 0, rows.num_rows, sum(part.size for part in parts))
