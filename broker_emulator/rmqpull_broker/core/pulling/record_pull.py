"""Pulls of the remoting protocol: messages as records, encoded in pieces and kept for the next pulls (rules 3.2, 4.7).

A pull returns 32 messages at most, too few for columns to pay. So a piece of a queue is encoded at once, and the pulls
of all groups take their records from it. Messages never change, so a piece is right as long as it exists; whether its
messages are still readable is decided by the bounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.messages.stored_records import Records, encode_records
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.message_pull import (
    CONSUME_QUEUE_FILE_ENTRIES,
    IN_MEMORY,
    Pulled,
    check_offset,
    pull_messages,
    read_first_offset,
)
from rmqpull_broker.core.state.broker_state import BrokerState

PIECE_ROWS = 4_096
PIECES_BYTES_MAX = 16 << 20
"""The bytes of all pieces that are kept. Above it, the piece that was unused for longest is dropped."""


@dataclass(slots=True)
class _Piece:
    first_offset: int
    records: Records

    @property
    def end_offset(self) -> int:
        return self.first_offset + len(self.records.ends) - 1


class RecordsPulled(NamedTuple):
    """The result of a pull, and its records as parts of the response's body."""

    pulled: Pulled
    body: Sequence[bytes | memoryview]
    row_count: int


class RecordPulls:
    """Reads queues for pulls of the remoting protocol. Keeps encoded pieces."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._common = make_common_properties(state.properties)
        self._pieces: OrderedDict[tuple[int, int], _Piece] = OrderedDict()
        self._last: dict[int, tuple[int, int]] = {}
        self._bytes = 0

    def pull(self, queue: MessageQueue, offset: int, max_msg_nums: int, message_filter: MessageFilter) -> RecordsPulled:
        """Makes a pull by the rules of ``message_pull.pull_messages``."""
        if not message_filter.keeps_everything:
            pulled = pull_messages(self._state, queue, offset, max_msg_nums, message_filter)
            return RecordsPulled(
                pulled, [self._encode(queue, batch).data for batch in pulled.batches], pulled.row_count
            )
        bounds = self._state.bounds(queue)
        verdict = check_offset(offset, bounds)
        if verdict is not None:
            return RecordsPulled(verdict, (), 0)
        return self._take(queue, offset, bounds, max(1, min(max_msg_nums, IN_MEMORY.message_count)))

    def _take(self, queue: MessageQueue, offset: int, bounds: Bounds, count_max: int) -> RecordsPulled:
        next_file = (offset // CONSUME_QUEUE_FILE_ENTRIES + 1) * CONSUME_QUEUE_FILE_ENTRIES
        end = min(bounds.max_offset, next_file, offset + count_max)
        parts: list[memoryview] = []
        left = IN_MEMORY.byte_count
        at = offset
        while at < end:
            piece = self._find(queue, at, bounds)
            if piece is None:
                break
            data, ends = piece.records
            first = at - piece.first_offset
            until = min(end, piece.end_offset) - piece.first_offset
            start = ends[first]
            if ends[until] - start > left:
                until = bisect_right(ends, start + left, first, until) - 1
                until = first + 1 if not parts and until == first else until
                end = piece.first_offset + until
            parts.append(memoryview(data)[start : ends[until]])
            left -= ends[until] - start
            at = piece.first_offset + until
        if at == offset:
            return RecordsPulled(Pulled(PullStatus.OFFSET_FOUND_NULL, offset, next_file, bounds), (), 0)
        return RecordsPulled(Pulled(PullStatus.FOUND, offset, at, bounds), parts, at - offset)

    def _find(self, queue: MessageQueue, offset: int, bounds: Bounds) -> _Piece | None:
        """Returns a piece that has the message at ``offset``; None if the store has no such message."""
        base = self._state.physical_offsets.find(queue, 0)
        key = self._last.get(base, (base, offset))
        piece = self._pieces.get(key)
        if piece is None or not piece.first_offset <= offset < piece.end_offset:
            key = base, offset
            piece = self._pieces.get(key)
            if piece is None:
                piece = self._read(queue, offset, min(bounds.max_offset, offset + PIECE_ROWS))
                if piece is None:
                    return None
                self._keep(key, piece)
            self._last[base] = key
        self._pieces.move_to_end(key)
        return piece

    def _read(self, queue: MessageQueue, offset: int, until: int) -> _Piece | None:
        for batch in self._state.store.read(queue, offset, until):
            if read_first_offset(batch) != offset:
                return None
            return _Piece(offset, self._encode(queue, batch))
        return None

    def _encode(self, queue: MessageQueue, rows: pa.RecordBatch) -> Records:
        base = self._state.physical_offsets.find(queue, 0)
        return encode_records(rows, queue.topic, queue.queue_id, base, self._common)

    def _keep(self, key: tuple[int, int], piece: _Piece) -> None:
        self._pieces[key] = piece
        self._bytes += len(piece.records.data)
        while self._bytes > PIECES_BYTES_MAX and len(self._pieces) > 1:
            _, dropped = self._pieces.popitem(last=False)
            self._bytes -= len(dropped.records.data)
