"""Pieces of queues, encoded as records of the remoting protocol and kept for the next pulls (rules 4.7).

A pull returns 32 messages at most, too few for columns to pay off. So a whole piece of a queue is encoded at once, and
the pulls of all groups take their records from it. Messages never change, so a piece is valid as long as its topic
exists; the queue's bounds decide whether its messages are still readable.
"""

from __future__ import annotations

import itertools
from array import array
from bisect import bisect_right
from collections import OrderedDict

from rmqpull_broker.core.filters.budget import FilterBudget
from rmqpull_broker.core.filters.message_filter import MessageFilter, TagFilter
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.messages.remoting_records import Records, encode_records, read_numbers
from rmqpull_broker.core.messages.remoting_row_records import encode_few_records
from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.state.broker_state import BrokerState

PIECE_ROWS_MAX = 4_096
PIECE_BYTES = (64 << 10, 1 << 20)
"""The approximate size of a piece: the smaller, the more queues are pulled. It has at least as many messages as a
pull."""
PULL_ROWS_MAX = 32
TAIL_ROWS_MAX = 64
"""Up to this many messages are encoded one by one, which is faster than columns for so few."""
PIECES_BYTES_MAX = 12 << 20
"""The bytes of all kept pieces. Above this limit, the least recently used piece is dropped."""
MATCHES_MAX = 8
"""The filters of one piece whose matches are kept. Above this limit, the oldest are dropped."""
_FIXED_BYTES = 1_024
"""Approximate memory of a piece besides its records."""
_QUARTERS_IN_USE = 3
"""The share of all bytes for the pieces being pulled. The rest is for pieces that other groups may still pull."""
_RECORD_MORE_BYTES = 160
"""By about how many bytes a record is larger than its row in columns."""
_OFFSET_BYTES = 8


class RecordPiece:
    """The records of ``[first_offset, end_offset)`` of a queue, and the messages that match the filters of pulls."""

    __slots__ = ("byte_count", "end_offset", "first_offset", "matches", "number", "queue", "records")

    def __init__(self, number: int, queue: MessageQueue, first_offset: int, records: Records) -> None:
        self.number = number
        self.queue = queue
        self.first_offset = first_offset
        self.end_offset = first_offset + len(records.ends) - 1
        self.records = records
        self.matches: dict[MessageFilter, array[int]] = {}
        self.byte_count = len(records.data) + _FIXED_BYTES + 2 * _OFFSET_BYTES * len(records.ends)


class _QueuePieces:
    """The pieces of one queue by their first offsets. They belong to ``topic``, and do not overlap."""

    __slots__ = ("first_physical_offset", "firsts", "last", "pieces", "topic")

    def __init__(self, topic: TopicConfig | None, first_physical_offset: int) -> None:
        self.topic = topic
        self.first_physical_offset = first_physical_offset
        self.firsts: list[int] = []
        self.pieces: list[RecordPiece] = []
        self.last: RecordPiece | None = None

    def find(self, offset: int) -> RecordPiece | None:
        """Returns the piece with the message at ``offset``, or None."""
        index = bisect_right(self.firsts, offset) - 1
        return self.pieces[index] if index >= 0 and offset < self.pieces[index].end_offset else None

    def find_next(self, offset: int) -> int | None:
        """Returns the first offset of the first piece after ``offset``."""
        index = bisect_right(self.firsts, offset)
        return self.firsts[index] if index < len(self.firsts) else None

    def add(self, piece: RecordPiece) -> None:
        index = bisect_right(self.firsts, piece.first_offset)
        self.firsts.insert(index, piece.first_offset)
        self.pieces.insert(index, piece)

    def remove(self, piece: RecordPiece) -> None:
        index = bisect_right(self.firsts, piece.first_offset) - 1
        del self.firsts[index], self.pieces[index]
        self.last = None if self.last is piece else self.last


class RecordPieces:
    """The pieces of all queues, within a limit of bytes."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._properties = state.properties
        self._queues: dict[MessageQueue, _QueuePieces] = {}
        # By their numbers, in the order of their last use.
        self._pieces: OrderedDict[int, RecordPiece] = OrderedDict()
        self._numbers = itertools.count()
        self.byte_count = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def find(self, queue: MessageQueue, offset: int) -> RecordPiece | None:
        """Returns a piece with the message at ``offset``, which is within the bounds; None if it cannot be read."""
        if self._properties is not self._state.properties:
            self.forget()
        of_queue = self._queues.get(queue)
        if of_queue is None or of_queue.topic is not self._state.find_topic(queue.topic):
            of_queue = self._begin(queue)
        piece = of_queue.last
        if piece is None or not piece.first_offset <= offset < piece.end_offset:
            piece = of_queue.find(offset) or self._encode(queue, of_queue, offset)
            if piece is None:
                return None
            of_queue.last = piece
        self._pieces.move_to_end(piece.number)
        return piece

    def find_matches(
        self, piece: RecordPiece, message_filter: MessageFilter, budget: FilterBudget, offset: int
    ) -> tuple[array[int], int]:
        """Returns the offsets of the matching messages of a piece, and the offset after the last one that was checked:
        the end of the piece, or as far from ``offset`` as the budget lasts. Trimmed messages may be missing.
        """
        matches = piece.matches.get(message_filter)
        if matches is None:
            if not budget.take(piece.end_offset - piece.first_offset):
                return self._match_some(piece, budget, offset)
            matches = self._match(piece, message_filter)
            more = len(matches)
            if len(piece.matches) >= MATCHES_MAX:
                more -= len(piece.matches.pop(next(iter(piece.matches))))
            piece.matches[message_filter] = matches
            piece.byte_count += _OFFSET_BYTES * more
            self._count(_OFFSET_BYTES * more)
        return matches, piece.end_offset

    def _match_some(self, piece: RecordPiece, budget: FilterBudget, offset: int) -> tuple[array[int], int]:
        matches, end = array("q"), offset
        for rows, mask in budget.split(self._state.store.read(piece.queue, offset, piece.end_offset)):
            offsets = rows.column("queueOffset")
            matches.frombytes(read_numbers(offsets if mask is None else offsets.filter(mask)))
            end = offsets[-1].as_py() + 1
        return matches, end if budget.is_spent else piece.end_offset

    def _match(self, piece: RecordPiece, message_filter: MessageFilter) -> array[int]:
        first = max(piece.first_offset, self._state.bounds(piece.queue).min_offset)
        if isinstance(message_filter, TagFilter) and (tail := self._state.store.read_tail(piece.queue, first)):
            arrived = tail[: piece.end_offset - first]
            return array("q", [row.queue_offset for row in arrived if message_filter.matches_any_row([row])])
        matches = array("q")
        for rows in self._state.store.read(piece.queue, first, piece.end_offset):
            offsets, mask = rows.column("queueOffset"), message_filter.mask(rows)
            matches.frombytes(read_numbers(offsets if mask is None else offsets.filter(mask)))
        return matches

    def forget(self) -> None:
        """Drops all pieces; they are made again when needed. Also needed after a change of the broker's properties."""
        self._properties = self._state.properties
        self._queues.clear()
        self._pieces.clear()
        self.byte_count = 0

    def _begin(self, queue: MessageQueue) -> _QueuePieces:
        """Forgets the pieces of a queue whose topic was changed, or deleted and created again."""
        before = self._queues.get(queue)
        for piece in () if before is None else before.pieces:
            del self._pieces[piece.number]
            self.byte_count -= piece.byte_count
        first_physical_offset = self._state.physical_offsets.find(queue, 0)
        begun = self._queues[queue] = _QueuePieces(self._state.find_topic(queue.topic), first_physical_offset)
        return begun

    def _encode(self, queue: MessageQueue, of_queue: _QueuePieces, offset: int) -> RecordPiece | None:
        end = min(self._state.bounds(queue).max_offset, offset + PIECE_ROWS_MAX)
        next_first = of_queue.find_next(offset)
        end = end if next_first is None else min(end, next_first)
        records = self._encode_tail(queue, of_queue, offset, end) or self._encode_columns(queue, of_queue, offset, end)
        if records is None:
            return None
        number = next(self._numbers)
        piece = self._pieces[number] = RecordPiece(number, queue, offset, records)
        of_queue.add(piece)
        self._count(piece.byte_count)
        return piece

    def _encode_tail(self, queue: MessageQueue, of_queue: _QueuePieces, offset: int, end: int) -> Records | None:
        """Encodes messages that have just arrived, without columns."""
        tail = self._state.store.read_tail(queue, offset)
        if not 0 < len(tail) <= TAIL_ROWS_MAX:
            return None
        taken = tail[: end - offset]
        return encode_few_records(taken, queue.topic, queue.queue_id, of_queue.first_physical_offset, self._properties)

    def _encode_columns(self, queue: MessageQueue, of_queue: _QueuePieces, offset: int, end: int) -> Records | None:
        rows = next(self._state.store.read(queue, offset, end), None)
        if rows is None or rows.column("queueOffset")[0].as_py() != offset:
            return None
        smallest, largest = PIECE_BYTES
        wanted_bytes = max(smallest, min(largest, _QUARTERS_IN_USE * PIECES_BYTES_MAX // (4 * len(self._queues))))
        row_bytes = rows.nbytes // rows.num_rows + _RECORD_MORE_BYTES
        wanted = max(PULL_ROWS_MAX, wanted_bytes // row_bytes)
        common = make_common_properties(self._properties)
        first_physical_offset = of_queue.first_physical_offset
        return encode_records(rows.slice(0, wanted), queue.topic, queue.queue_id, first_physical_offset, common)

    def _count(self, byte_count: int) -> None:
        """Counts bytes for the piece in use, which stays. Drops others above the limit."""
        self.byte_count += byte_count
        while self.byte_count > PIECES_BYTES_MAX and len(self._pieces) > 1:
            _, dropped = self._pieces.popitem(last=False)
            self.byte_count -= dropped.byte_count
            of_queue = self._queues[dropped.queue]
            of_queue.remove(dropped)
            if not of_queue.pieces:
                del self._queues[dropped.queue]
