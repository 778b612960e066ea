"""Scattered rows as chunks: the rows of each queue in order, whatever the commits, the limits and the columns are."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues import chunks, gathering
from rmqpull_broker.store.queues.chunks import FreshChunk, Run, RunPart, RunParts
from rmqpull_broker.store.queues.consume_queue import ConsumeQueue
from rmqpull_broker.store.queues.gathering import Gatherer, choose_scattered
from tests.harness.written_messages import QUEUES, WrittenMessages

CALLS = st.lists(st.lists(st.integers(0, 4), min_size=3, max_size=3).filter(any), min_size=1, max_size=4)
"""The calls of a commit: how many rows each has for each of three queues."""
COMMITS = st.lists(st.tuples(CALLS, st.integers(0, 3)), min_size=1, max_size=6)
"""Commits, with the number of rows that a queue gets otherwise before each."""


class Written:
    """Runs of three queues, with the rows that they should become."""

    def __init__(self) -> None:
        self.log = WrittenMessages()
        self.runs: list[tuple[MessageQueue, Run]] = []
        self.rows: dict[MessageQueue, dict[int, StoredMessage]] = {queue: {} for queue in QUEUES}
        self._ends = dict.fromkeys(QUEUES, 0)

    def commit(self, calls: list[list[int]], gap: int) -> None:
        number = len(self.runs) + 1
        self._ends[QUEUES[0]] += gap
        parts, own = defaultdict[MessageQueue, list[RunPart]](list), defaultdict[MessageQueue, list[Message]](list)
        for at, counts in enumerate(calls):
            # Some messages lack columns that others have.
            tag = "A" if (number + at) % 2 else None
            messages = [
                Message(b"%d %d %d %d" % (number, at, place, row), f"id {row}", tag)
                for place, count in enumerate(counts)
                for row in range(count)
            ]
            rows = columns.from_rows([StoredMessage(message, 0, 0, "") for message in messages])
            (place,) = self.log.write(rows.select(columns.UNPLACED_SCHEMA.names), [len(messages)])
            begin = 0
            for queue, count in zip(QUEUES, counts, strict=True):
                taken = messages[begin : begin + count]
                if taken:
                    size = sum(len(message.body) + len(message.tags or "") for message in taken)
                    parts[queue].append(RunPart(place, begin, count, size))
                    own[queue] += taken
                begin += count
        for queue, placed in parts.items():
            self._add_run(queue, placed, own[queue], number)

    def _add_run(self, queue: MessageQueue, parts: list[RunPart], messages: list[Message], number: int) -> None:
        first, host = self._ends[queue], f"host {number % 2}"
        for offset, message in enumerate(messages, first):
            self.rows[queue][offset] = StoredMessage(message, offset, number, host)
        self._ends[queue] += len(messages)
        written = LogRange(0, 10 * number, 10 * number + 9)
        size = sum(part.size for part in parts)
        self.runs.append((queue, Run(first, len(messages), number, host, written, RunParts(parts), size)))


def rows_of(gathered: list[tuple[MessageQueue, FreshChunk]], queue: MessageQueue) -> list[StoredMessage]:
    return columns.to_rows([chunk.batch for own, chunk in gathered if own == queue])


@given(COMMITS, st.integers(1, 400), st.integers(1, 3000), st.integers(1, 20))
def test_chunks_have_the_oldest_rows_of_each_queue(
    commits: list[tuple[list[list[int]], int]], bytes_max: int, message_bytes_max: int, rows_max: int
) -> None:
    written = Written()
    for calls, gap in commits:
        written.commit(calls, gap)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "MESSAGE_BYTES_MAX", message_bytes_max)
        patch.setattr(chunks, "CHUNK_ROWS_MAX", rows_max)
        gathered = list(Gatherer(written.log.read).gather(written.runs, bytes_max))
    for queue in QUEUES:
        expected = [row for _, row in sorted(written.rows[queue].items())]
        rows = rows_of(gathered, queue)
        assert rows == expected[: len(rows)]
    for queue, chunk in gathered:
        assert chunk.batch.schema.equals(columns.STORED_SCHEMA)
        assert chunk.row_count < rows_max + 4, "a chunk is full, and its last part is whole"
        covered = [
            run.written
            for own, run in written.runs
            if own == queue
            and run.first_offset < chunk.first_offset + chunk.row_count
            and run.first_offset + run.row_count > chunk.first_offset
        ]
        assert chunk.written.from_position == covered[0].from_position
        assert chunk.written.until_position == covered[-1].until_position
    size = sum(
        len(row.message.body) + len(row.message.tags or "") for queue in QUEUES for row in rows_of(gathered, queue)
    )
    largest = max(part.size for _, run in written.runs for part in run.parts)
    total = sum(run.byte_count for _, run in written.runs)
    assert min(bytes_max, total) <= size < bytes_max + largest or size == total


def test_a_message_that_the_log_lacks_keeps_back_its_queues_and_no_others() -> None:
    written = Written()
    for calls in ([[1, 1, 0]], [[2, 0, 2]], [[1, 1, 1]]):
        written.commit(calls, 0)
    missing = written.runs[2][1].parts[0].message  # the second commit

    def read(message: LoggedMessage) -> pa.RecordBatch:
        if message == missing:
            raise CorruptLog("it is damaged")
        return written.log.read(message)

    gatherer = Gatherer(read)
    gathered = list(gatherer.gather(written.runs, 1 << 20))
    assert {queue for queue, _ in gathered} == {QUEUES[1]}
    assert rows_of(gathered, QUEUES[1]) == list(written.rows[QUEUES[1]].values())
    assert gatherer.damaged == [written.runs[2], written.runs[3]]
    assert str(gatherer.damage) == "it is damaged"


@pytest.mark.parametrize(("count", "commits"), [(3, 1), (4, 2), (6, 2), (9, 3), (99, 3)])
def test_the_runs_of_the_oldest_commits_are_chosen(count: int, commits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "RUNS_OF_QUEUE_MIN", 1)
    written, queues = Written(), {queue: ConsumeQueue(lambda chunk: pytest.fail("it reads")) for queue in QUEUES}
    for _ in range(3):
        written.commit([[1, 1, 1]], 0)
    for queue, run in written.runs:
        queues[queue].append_run(run)
    chosen = choose_scattered(queues.items(), count)
    assert sorted(chosen, key=lambda own: own[1].written) == written.runs[: 3 * commits]
    assert choose_scattered([], count) == []


def test_many_queues_take_turns_and_old_runs_of_others_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "RUNS_OF_QUEUE_MIN", 2)
    written, queues = Written(), {queue: ConsumeQueue(lambda chunk: pytest.fail("it reads")) for queue in QUEUES}
    for counts in (*[[1, 1, 0]] * 3, *[[0, 0, 1]] * 4):
        written.commit([counts], 0)
    for queue, run in written.runs:
        queues[queue].append_run(run)
    one = choose_scattered(queues.items(), 3)
    assert [queue for queue, _ in one] == [QUEUES[2]] * 3, "one queue with the most runs"
    two = choose_scattered(queues.items(), 5)
    assert [queue for queue, _ in two] == [QUEUES[2]] * 2 + [QUEUES[0]] * 3, "the oldest of two queues"
