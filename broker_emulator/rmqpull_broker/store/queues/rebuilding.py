"""Chunks made again from the commit log, when a queue file is damaged or gone."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored, TopicDeleted
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues.chunks import SavedChunk


def rebuilt_rows(log: CommitLog, queue: MessageQueue, chunk: SavedChunk, min_offset: int) -> pa.RecordBatch:
    """The rows of a chunk, read from where the log holds them; nulls for those before the queue's min offset.

    Raises CorruptLog when they are not there.
    """
    parts: list[pa.RecordBatch] = []
    first_offset, until_offset = max(chunk.first_offset, min_offset), chunk.first_offset + chunk.row_count
    for facts in log.read(chunk.written.from_position, chunk.written.until_position):
        for fact in facts:
            if isinstance(fact, TopicDeleted) and fact.topic == queue.topic:
                parts.clear()  # what follows has the same offsets and is another topic's
            for offset, rows in _rows_of(fact, queue):
                low, high = max(offset, first_offset), min(offset + rows.num_rows, until_offset)
                if low < high:
                    parts.append(rows.slice(low - offset, high - low))
    if sum(part.num_rows for part in parts) != until_offset - first_offset:
        raise CorruptLog(
            f"messages {first_offset} to {until_offset - 1} of queue {queue} are damaged in their queue file and "
            f"missing from the log between positions {chunk.written.from_position} and {chunk.written.until_position}"
        )
    return pa.concat_batches([_nulls(first_offset - chunk.first_offset), *parts])


def _nulls(row_count: int) -> pa.RecordBatch:
    arrays = [pa.nulls(row_count, field.type) for field in columns.STORED_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=columns.STORED_SCHEMA)


def _rows_of(fact: Fact, queue: MessageQueue) -> Iterator[tuple[int, pa.RecordBatch]]:
    """(first offset, rows) of what a fact stores in a queue."""
    if isinstance(fact, RowsStored) and fact.queue == queue:
        yield fact.rows[0].queue_offset, columns.from_rows(fact.rows)
    elif isinstance(fact, ColumnsStored):
        place = 0
        for part in fact.parts:
            if part.queue == queue:
                yield part.first_offset, fact.batch.slice(place, part.row_count)
            place += part.row_count
