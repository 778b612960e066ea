"""A message store made of plain lists, with which tests compare the real one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence, Set

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, QueuesTrimmed, RowsStored, TopicDeleted
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.ports import LogRange, Span
from rmqpull_broker.core.state.stage_facts import ColumnsStaged, StagesCommitted, StagesEnded


class Lists:
    """A list of messages for each queue, and the number of deleted ones."""

    def __init__(self) -> None:
        self._rows: dict[MessageQueue, list[StoredMessage]] = {}
        self._deleted: dict[MessageQueue, int] = {}
        # By stage and sequence: the target queues and their rows.
        self._staged: dict[str, dict[int, list[tuple[MessageQueue, pa.RecordBatch]]]] = {}

    def list_queues(self) -> list[MessageQueue]:
        return list(self._rows)

    def seal_tails(self) -> None:
        """Does nothing: there are no columns."""

    def bounds(self, queue: MessageQueue) -> Bounds:
        return Bounds(self._deleted.get(queue, 0), len(self._rows.get(queue, ())))

    def read(self, queue: MessageQueue, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        rows = self._rows.get(queue, [])[from_offset:until_offset]
        return iter([columns.from_rows(rows)] if rows else [])

    def read_tail(self, queue: MessageQueue, from_offset: int) -> list[StoredMessage]:
        return []

    newest_written_ms = last_read_ms = 0
    has_reads = False

    def trust_store_times(self, now_ms: int) -> None:
        """Lists have no ages."""

    def find_last_store_ms(self, queue: MessageQueue) -> int:
        first, last = self.bounds(queue)
        return self._rows[queue][-1].store_timestamp_ms if last > first else 0

    def find_time_range(self, queue: MessageQueue, timestamp_ms: int) -> Bounds:
        return self.bounds(queue)

    def list_spans(self, queue: MessageQueue, from_offset: int, until_offset: int) -> list[Span]:
        return [Span(offset + 1, None) for offset in range(from_offset, until_offset)]

    def join_stages(self, stage_ids: Sequence[str]) -> Iterator[None]:
        return iter(())

    def apply(self, fact: Fact, written: LogRange) -> None:
        match fact:
            case RowsStored(queue, rows):
                self._rows.setdefault(queue, []).extend(rows)
            case ColumnsStored(parts, batch):
                stored = iter(columns.to_rows([batch]))
                for part in parts:
                    self._rows.setdefault(part.queue, []).extend(itertools.islice(stored, part.row_count))
            case ColumnsStaged(_, stage_id, sequence, parts, batch=batch):
                begin = 0
                for target, count, *_ in parts:
                    rows = batch.slice(begin, count)
                    self._staged.setdefault(stage_id, {}).setdefault(sequence, []).append((target, rows))
                    begin += count
            case StagesCommitted(_, stage_ids, _, splices):
                stages = [self._staged.pop(stage_id, {}) for stage_id in stage_ids]
                for source, queue, offset, _, _, store_ms, host in splices:
                    for call in (stage[sequence] for stage in stages for sequence in sorted(stage)):
                        for rows in (rows for staged_for, rows in call if staged_for == source):
                            placed = columns.place_rows(rows, offset, store_ms, host)
                            self._rows.setdefault(queue, []).extend(columns.to_rows([placed]))
                            offset += rows.num_rows
            case QueuesTrimmed(min_offsets):
                for queue, min_offset in min_offsets:
                    self._deleted[queue] = max(min_offset, self._deleted.get(queue, 0))
            case TopicDeleted(name):
                self._drop({name})
            case StagesEnded(stage_ids):
                for stage_id in stage_ids:
                    self._staged.pop(stage_id, None)
                self._drop({STAGE_PREFIX + stage_id for stage_id in stage_ids})

    def list_staged(self) -> dict[str, dict[MessageQueue, list[bytes]]]:
        found: dict[str, dict[MessageQueue, list[bytes]]] = {}
        for stage_id, calls in self._staged.items():
            for queue, rows in (each for sequence in sorted(calls) for each in calls[sequence]):
                bodies = rows.column("body").to_pylist()
                found.setdefault(stage_id, {}).setdefault(queue, []).extend(bodies)
        return found

    def _drop(self, topics: Set[str]) -> None:
        for queue in [queue for queue in self._rows if queue.topic in topics]:
            del self._rows[queue]
            self._deleted.pop(queue, None)
