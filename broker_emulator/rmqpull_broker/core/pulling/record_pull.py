"""Pulls of the remoting protocol: the messages of a queue as records, within the limits of one pull (rules 3.2, 4.7).

The results equal those of ``message_pull``. The records come from encoded pieces, so a pull need not build columns.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from rmqpull_broker.core.filters.budget import FilterBudget
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling.answers import PullStatus, find_response
from rmqpull_broker.core.pulling.message_pull import CONSUME_QUEUE_FILE_ENTRIES, IN_MEMORY, SCAN_ENTRIES, check_offset
from rmqpull_broker.core.pulling.record_pieces import RecordPiece, RecordPieces
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_proto.remoting.codes import ResponseCode


class RecordsPulled(NamedTuple):
    """The result of a pull, and its records as parts of the response's body."""

    status: PullStatus
    response: ResponseCode
    next_offset: int
    bounds: Bounds
    body: Sequence[memoryview] = ()
    row_count: int = 0
    message_bytes: int = 0
    """The bytes of the messages' bodies."""

    @property
    def may_park(self) -> bool:
        """Whether a pull with this result parks until a message arrives (rules 3.3)."""
        return self.response is ResponseCode.PULL_NOT_FOUND


def make_empty(status: PullStatus, offset: int, next_offset: int, bounds: Bounds) -> RecordsPulled:
    """Makes the result of a pull at ``offset`` that returns no message."""
    return RecordsPulled(status, find_response(status, offset), next_offset, bounds)


class RecordPulls:
    """Reads queues for pulls of the remoting protocol."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self.pieces = RecordPieces(state)

    def pull(self, queue: MessageQueue, offset: int, max_msg_nums: int, message_filter: MessageFilter) -> RecordsPulled:
        """Makes a pull by the rules of ``message_pull.pull_messages``."""
        bounds = self._state.bounds(queue)
        if not bounds.min_offset <= offset < bounds.max_offset:
            verdict = check_offset(offset, bounds)
            assert verdict is not None, "an offset outside the bounds is refused"
            return make_empty(verdict.status, offset, verdict.next_offset, bounds)
        next_file = (offset // CONSUME_QUEUE_FILE_ENTRIES + 1) * CONSUME_QUEUE_FILE_ENTRIES
        response = _Response(max(1, min(max_msg_nums, IN_MEMORY.message_count)), IN_MEMORY.byte_count)
        keeps_everything = message_filter.keeps_everything
        scanned_max = response.count_max if keeps_everything else max(SCAN_ENTRIES, max_msg_nums)
        end = min(bounds.max_offset, next_file, offset + scanned_max)
        at, budget = offset, FilterBudget(message_filter)
        while at < end and not response.is_full:
            piece = self.pieces.find(queue, at)
            if piece is None:
                break
            if keeps_everything:
                at = response.take(piece, at, min(end, piece.end_offset))
            else:
                matches, until = self.pieces.find_matches(piece, message_filter, budget, at)
                at = response.take_matches(piece, at, min(end, until), matches)
                if budget.is_spent:
                    break
        if at == offset:
            return make_empty(PullStatus.OFFSET_FOUND_NULL, offset, next_file, bounds)
        if not response.count:
            return make_empty(PullStatus.NO_MATCHED_MESSAGE, offset, at, bounds)
        return RecordsPulled(
            PullStatus.FOUND,
            ResponseCode.SUCCESS,
            at,
            bounds,
            response.parts,
            response.count,
            response.message_bytes,
        )


class _Response:
    """The records of one response. Before each entry, matching or not, it checks whether the response is full."""

    __slots__ = ("byte_max", "count", "count_max", "is_full", "message_bytes", "parts")

    def __init__(self, count_max: int, byte_max: int) -> None:
        self.count_max = count_max
        self.byte_max = byte_max
        self.count = self.message_bytes = 0
        self.parts: list[memoryview] = []
        self.is_full = False

    def take(self, piece: RecordPiece, at: int, until: int) -> int:
        """Takes all messages of ``[at, until)`` that fit. Returns the offset of the next entry."""
        data, ends, body_ends, _ = piece.records
        first, last = at - piece.first_offset, until - piece.first_offset
        start = ends[first]
        if ends[last] - start > self.byte_max:
            self.is_full = True
            last = bisect_right(ends, start + self.byte_max, first, last) - 1
            if last == first:
                if self.count:
                    return at
                last = first + 1  # the first message always fits
        self.parts.append(data[start : ends[last]])
        self.byte_max -= ends[last] - start
        self.count += last - first
        self.message_bytes += body_ends[last] - body_ends[first]
        return piece.first_offset + last

    def take_matches(self, piece: RecordPiece, at: int, until: int, matches: Sequence[int]) -> int:
        """Takes those of ``matches``, which are offsets, that are in ``[at, until)``, like :meth:`take`."""
        index = bisect_left(matches, at)
        while at < until and not self.is_full:
            match = min(matches[index], until) if index < len(matches) else until
            stop = self._find_stop(piece, at, min(match + 1, until))
            if stop is not None:
                self.is_full = True
                return stop
            if match == until:
                return until
            at = self._take_run(piece, match, until, matches, index)
            index += at - match
        return at

    def _find_stop(self, piece: RecordPiece, at: int, until: int) -> int | None:
        """Returns the first entry of ``[at, until)`` before which the response is full, or None."""
        if not self.count:
            return None
        if self.count >= self.count_max:
            return at
        if piece.records.size_max <= self.byte_max:
            return None
        ends, first = piece.records.ends, piece.first_offset
        return next((i for i in range(at, until) if ends[i - first + 1] - ends[i - first] > self.byte_max), None)

    def _take_run(self, piece: RecordPiece, match: int, until: int, matches: Sequence[int], index: int) -> int:
        """Takes a match, and those that follow it without a gap. Returns the offset after them."""
        end = match + 1
        index += 1
        last = min(until, match + self.count_max - self.count)
        while end < last and index < len(matches) and matches[index] == end:
            end += 1
            index += 1
        return self.take(piece, match, end)
