"""Finds the rows of a queue in the log again, when its queue file is damaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored, TopicDeleted
from rmqpull_broker.core.state.ports import NOT_LOGGED
from rmqpull_broker.core.state.stage_facts import ColumnsStaged, StagesCommitted, StagesEnded
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues.chunks import SavedChunk
from rmqpull_broker.store.queues.staged_rows import StagedRows

QueueRows = tuple[MessageQueue, int, pa.RecordBatch]
"""A queue, an offset, and the rows of the queue from there on."""


class LoggedQueues:
    """Follows facts of the log, and tells which rows become readable where."""

    def __init__(self) -> None:
        self._staged = StagedRows()

    def apply(self, fact: Fact) -> Iterator[QueueRows]:
        """Yields the rows that become readable by a fact, or that wait in a system queue."""
        match fact:
            case RowsStored(queue, rows):
                yield queue, rows[0].queue_offset, columns.from_rows(rows)
            case ColumnsStored(parts, batch):
                begin = 0
                for part in parts:
                    yield part.queue, part.first_offset, batch.slice(begin, part.row_count)
                    begin += part.row_count
            case ColumnsStaged():
                self._staged.add(replace(fact, messages=()), NOT_LOGGED)
            case StagesCommitted(_, stage_ids, _, splices):
                joined = self._staged.take(stage_ids)
                for source, queue, first_offset, row_count, _, store_ms, host in splices:
                    run = joined.runs.get(source) if joined is not None else None
                    if run is None:
                        continue
                    # Rows that are missing were deleted with the oldest segments, and all rows before them.
                    offset = first_offset + row_count - run.row_count
                    for staged in run.parts:
                        yield queue, offset, columns.place_rows(staged.read(None), offset, store_ms, host)
                        offset += staged.row_count
            case StagesEnded(stage_ids):
                self._staged.drop(stage_ids)


def rebuild_rows(log: CommitLog, queue: MessageQueue, chunk: SavedChunk, min_offset: int) -> pa.RecordBatch:
    """Reads the rows of a damaged chunk from the log. Rows before the queue's min offset become nulls.

    Raises CorruptLog when the log does not have them.
    """
    parts: list[pa.RecordBatch] = []
    first_offset, until_offset = max(chunk.first_offset, min_offset), chunk.first_offset + chunk.row_count
    queues = LoggedQueues()
    for fact in _list_facts(log.read(chunk.written.from_position, chunk.written.until_position)):
        if isinstance(fact, TopicDeleted) and fact.topic == queue.topic:
            parts.clear()  # the rows after this belong to another topic of the same name
        for found, offset, rows in queues.apply(fact):
            low, high = max(offset, first_offset), min(offset + rows.num_rows, until_offset)
            if found == queue and low < high:
                parts.append(rows.slice(low - offset, high - low))
    if sum(part.num_rows for part in parts) != until_offset - first_offset:
        raise CorruptLog(
            f"messages {first_offset} to {until_offset - 1} of queue {queue} are damaged in their queue file and "
            f"missing from the log between positions {chunk.written.from_position} and {chunk.written.until_position}"
        )
    return columns.concat_batches([_make_nulls(first_offset - chunk.first_offset), *parts])


def _list_facts(fact_batches: Iterable[Iterable[Fact]]) -> Iterator[Fact]:
    return (fact for facts in fact_batches for fact in facts)


def _make_nulls(row_count: int) -> pa.RecordBatch:
    arrays = [pa.nulls(row_count, field.type) for field in columns.STORED_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.STORED_SCHEMA)
