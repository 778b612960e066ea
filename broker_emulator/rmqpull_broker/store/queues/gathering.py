"""Gathers scattered rows: chunks of many queues are made together, so that few messages of the log are read twice."""

from __future__ import annotations

import heapq
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import reduce
from itertools import groupby, islice, zip_longest
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage, MessageQueue
from rmqpull_broker.store.log.logged_columns import add_null_columns
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.queues import chunks
from rmqpull_broker.store.queues.chunks import FreshChunk, Run, RunPart, make_chunk, span
from rmqpull_broker.store.queues.consume_queue import ConsumeQueue

MESSAGE_BYTES_MAX = 32 << 20
"""The bytes of messages that are in memory together, twice while they are joined."""
RUNS_OF_QUEUE_MIN = 64
"""How many runs of a queue become chunks together, on average, if it has so many."""


def choose_scattered(queues: Iterable[tuple[MessageQueue, ConsumeQueue]], count: int) -> list[tuple[MessageQueue, Run]]:
    """Returns about so many scattered runs of the oldest commits, in order for each queue.

    Where there are too many queues for that, they are those of the queues with the most runs: each run alone would make
    a tiny chunk.
    """
    having = ((queue, held) for queue, held in queues if held.scattered_count)
    chosen = heapq.nlargest(max(1, count // RUNS_OF_QUEUE_MIN), having, key=lambda own: own[1].scattered_count)
    in_order = heapq.merge(*(held.list_commits() for _, held in chosen))
    until_position = max(islice(in_order, count), default=0)
    return [(queue, run) for queue, held in chosen for run in held.list_scattered(until_position)]


class _Place(NamedTuple):
    """A part of a run, and the offset of its first row."""

    queue: MessageQueue
    run: Run
    part: RunPart
    first_offset: int


class _Piece:
    """Parts of one queue that follow one another, and become a chunk. ``indexes`` are their rows in the wave."""

    def __init__(self, place: _Place) -> None:
        self.queue = place.queue
        self.first_offset = self.end = place.first_offset
        self.byte_count = 0
        self.indexes = array("q")
        self.runs: list[Run] = []
        self._rows_of_runs: list[int] = []

    def takes(self, place: _Place) -> bool:
        """Whether the part follows, and the chunk is not full."""
        is_full = len(self.indexes) >= chunks.CHUNK_ROWS_MAX or self.byte_count >= chunks.CHUNK_BYTES_MAX
        return not is_full and self.end == place.first_offset and self.runs[-1].store_host == place.run.store_host

    def add(self, place: _Place, begin: int) -> None:
        """Adds a part whose rows begin at ``begin`` in the wave."""
        row_count = place.part.row_count
        self.indexes.extend(range(begin, begin + row_count))
        self.end += row_count
        self.byte_count += place.part.size
        if not self.runs or self.runs[-1] is not place.run:
            self.runs.append(place.run)
            self._rows_of_runs.append(0)
        self._rows_of_runs[-1] += row_count

    def make_chunk(self, rows: pa.RecordBatch) -> FreshChunk:
        """Returns the chunk. ``rows`` are those of the wave."""
        indexes = pa.Array.from_buffers(pa.int64(), len(self.indexes), [None, pa.py_buffer(self.indexes)])
        first = self.runs[0]
        placed = columns.place_rows(rows.take(indexes), self.first_offset, first.store_ms, first.store_host)
        times = [(run.store_ms, count) for run, count in zip(self.runs, self._rows_of_runs, strict=True)]
        if len(times) > 1:
            placed = columns.set_offsets_and_times(placed, placed.column("queueOffset"), times)
        return make_chunk(self.first_offset, placed, reduce(span, (run.written for run in self.runs)))


class _Wave:
    """Pieces that are made together: their messages fit in memory."""

    def __init__(self) -> None:
        self.pieces: list[_Piece] = []
        self.message_bytes = 0
        self.begins: dict[LoggedMessage, int] = {}
        """The first row of each message when all are joined."""
        self._row_count = 0
        self._last: dict[MessageQueue, _Piece] = {}

    def is_full_for(self, place: _Place) -> bool:
        """Whether the part needs a message for which there is no room."""
        return self.message_bytes >= MESSAGE_BYTES_MAX and place.part.message not in self.begins

    def add(self, place: _Place) -> None:
        """Adds a part, and its message."""
        message = place.part.message
        assert isinstance(message, LoggedMessage), "without a log, nothing is scattered"
        begin = self.begins.get(message)
        if begin is None:
            begin = self.begins[message] = self._row_count
            self._row_count += message.row_count
            self.message_bytes += message.length
        piece = self._last.get(place.queue)
        if piece is None or not piece.takes(place):
            piece = self._last[place.queue] = _Piece(place)
            self.pieces.append(piece)
        piece.add(place, begin + place.part.begin)


class Gatherer:
    """Makes chunks of scattered runs.

    ``damaged`` are the runs that need a message which the log does not have, ``damage`` says what is wrong with the
    first. No more rows of their queues are gathered.
    """

    def __init__(self, read_message: Callable[[LoggedMessage], pa.RecordBatch]) -> None:
        self._read_message = read_message
        self.damaged: list[tuple[MessageQueue, Run]] = []
        self.damage: CorruptLog | None = None

    def gather(
        self, runs: Iterable[tuple[MessageQueue, Run]], bytes_max: int
    ) -> Iterator[tuple[MessageQueue, FreshChunk]]:
        """Yields chunks of ``bytes_max`` bytes of rows or a little more, unless the runs have fewer, with their queues.

        The runs of a queue are in order, and so are its chunks. The last chunk of a queue may end within a run.
        """
        wave, left = _Wave(), bytes_max
        for place in _take_in_step(runs):
            if wave.pieces and (left <= 0 or wave.is_full_for(place)):
                yield from self._finish(wave)
                if left <= 0:
                    return
                wave = _Wave()
            wave.add(place)
            left -= place.part.size
        yield from self._finish(wave)

    def _finish(self, wave: _Wave) -> Iterator[tuple[MessageQueue, FreshChunk]]:
        read, missing = list[pa.RecordBatch](), set[LoggedMessage]()
        for message in wave.begins:
            try:
                read.append(self._read_message(message))
            except CorruptLog as error:
                self.damage = self.damage or error
                missing.add(message)
                read.append(pa.record_batch([pa.nulls(message.row_count, pa.binary())], ["body"]))
        self._note_damaged(wave.pieces, missing)
        left_out = {queue for queue, _ in self.damaged}
        rows = _join(read) if read else None
        del read
        for piece in wave.pieces:
            if piece.queue not in left_out:
                yield piece.queue, piece.make_chunk(rows)

    def _note_damaged(self, pieces: Sequence[_Piece], missing: Set[LoggedMessage]) -> None:
        if not missing:
            return
        for piece in pieces:
            damaged = [run for run in piece.runs if any(part.message in missing for part in run.parts)]
            self.damaged += [(piece.queue, run) for run in damaged]


def _take_in_step(runs: Iterable[tuple[MessageQueue, Run]]) -> Iterator[_Place]:
    """Yields the parts of runs: commit by commit, and from all of its queues in turn, as messages have them."""
    in_order = sorted(runs, key=lambda own: own[1].written.until_position)
    for _, commit in groupby(in_order, key=lambda own: own[1].written.until_position):
        of_queues = defaultdict[MessageQueue, list[Run]](list)
        for queue, run in commit:
            of_queues[queue].append(run)
        for step in zip_longest(*(_list_parts(queue, held) for queue, held in of_queues.items())):
            yield from (place for place in step if place is not None)


def _list_parts(queue: MessageQueue, runs: Sequence[Run]) -> Iterator[_Place]:
    for run in runs:
        first_offset = run.first_offset
        for part in run.parts:
            yield _Place(queue, run, part, first_offset)
            first_offset += part.row_count


def _join(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Returns the rows of all messages: with their columns if these are the same, else with all columns."""
    if all(batch.schema.equals(batches[0].schema) for batch in batches):
        return columns.concat_batches(batches)
    return columns.concat_batches([add_null_columns(batch) for batch in batches])
