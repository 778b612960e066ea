"""Pulls ahead of the consumer: several lanes at once, in order within each lane, and across lanes as responses arrive.

Threads make the pulls, so a lane that is slow or retries does not delay the others.
:class:`rmqpull_client.flow.PulledAhead` counts all memory, except for the one batch that the consumer holds. Nothing
here runs once per message.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.flow import BATCH_BYTES, BATCH_ROWS, FlowLimits, PulledAhead
from rmqpull_client.loss import Loss

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LANES_AT_ONCE = 8
"""The lanes that one read pulls at the same time."""


@dataclass(frozen=True)
class Piece(Generic[T_co]):
    """The result of one pull: rows in the form of the transport, and losses."""

    rows: T_co
    row_count: int
    byte_count: int
    losses: Sequence[Loss] = ()


class Lane(Protocol[T_co]):
    """A sequence of pulls, each of which starts where the previous one ended."""

    @property
    def is_done(self) -> bool:
        """Whether everything has been pulled."""

    def pull(self) -> Piece[T_co]:
        """Pulls once and advances. After an error, the lane stays where it was."""

    def cancel(self) -> None:
        """Ends the pull in flight, and any later one, with an error. Called from another thread."""


class ReadAhead(Generic[T]):
    """Iterates over the pieces of all lanes, a batch of them at a time, as they arrive.

    ``linger_s`` is how long a batch that is not full waits for more pieces. This helps when each pull returns only a
    few messages.
    """

    def __init__(self, lanes: Sequence[Lane[T]], limits: FlowLimits, linger_s: float = 0) -> None:
        self._lanes = lanes
        self._linger_s = linger_s
        self._in_flight = PulledAhead(limits)
        self._unstarted = deque(enumerate(lanes))
        self._ready: deque[tuple[int, Piece[T] | Exception]] = deque()
        self._threads_left = min(len(lanes), LANES_AT_ONCE)
        self._consumer_waits = self._is_closed = False
        lock = threading.Lock()
        self._arrival = threading.Condition(lock)  # the consumer waits for it
        self._room = threading.Condition(lock)  # the pulling threads wait for it

    def __iter__(self) -> Iterator[list[Piece[T]]]:
        """Yields until all lanes are done. Raises the error of a lane. Closing the iterator ends the pulls."""
        threads = [
            threading.Thread(target=self._work, name=f"rmqpull-pull-{number}", daemon=True)
            for number in range(self._threads_left)
        ]
        try:
            for thread in threads:
                thread.start()
            while pieces := self._take():
                yield pieces
        finally:
            self._close()
            for thread in threads:
                if thread.ident is not None:
                    thread.join()

    # --- the consumer -------------------------------------------------------------------------------------------------

    def _take(self) -> list[Piece[T]]:
        """Returns the pieces that have arrived, up to a batch; none if all lanes are done."""
        pieces: list[Piece[T]] = []
        rows = byte_count = 0
        until_s: float | None = None
        with self._arrival:
            while rows < BATCH_ROWS and byte_count < BATCH_BYTES and self._await_piece(until_s):
                lane, piece = self._ready[0]
                if isinstance(piece, Exception):
                    if pieces:
                        break
                    raise piece
                rows += piece.row_count
                byte_count += piece.byte_count
                if pieces and (rows > BATCH_ROWS or byte_count > BATCH_BYTES):
                    break
                self._ready.popleft()
                self._in_flight.take(lane, piece.row_count, piece.byte_count)
                self._room.notify_all()
                pieces.append(piece)
                until_s = until_s or time.monotonic() + self._linger_s
        return pieces

    def _await_piece(self, until_s: float | None) -> bool:
        """Waits for the next piece if more may come, at most until ``until_s``. Returns whether there is one."""
        if not self._ready and self._threads_left:
            self._consumer_waits = True
            self._room.notify_all()
            left_s = None if until_s is None else max(until_s - time.monotonic(), 0)
            self._arrival.wait_for(lambda: self._ready or not self._threads_left, left_s)
            self._consumer_waits = False
        return bool(self._ready)

    def _close(self) -> None:
        with self._room:
            self._is_closed = True
            self._unstarted.clear()
            self._ready.clear()
            self._room.notify_all()
        for lane in self._lanes:
            lane.cancel()

    # --- the pulling threads ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Pulls lanes to their end, one after the other."""
        number = -1
        try:
            while (numbered := self._next_lane()) is not None:
                number, lane = numbered
                while not lane.is_done and self._begin(number):
                    self._arrive(number, self._pull(lane))
        except Exception as error:  # noqa: BLE001 - the consumer gets any error
            with self._arrival:
                self._ready.append((number, error))
        finally:
            with self._arrival:
                self._threads_left -= 1
                self._arrival.notify()

    def _next_lane(self) -> tuple[int, Lane[T]] | None:
        with self._room:
            return self._unstarted.popleft() if self._unstarted else None

    def _begin(self, lane: int) -> bool:
        """Waits until a pull is within the limits. Returns False if the iterator is closed."""
        with self._room:
            self._room.wait_for(lambda: self._is_closed or self._in_flight.may_pull(lane))
            self._in_flight.start_pull()
            return not self._is_closed

    def _arrive(self, number: int, piece: Piece[T]) -> None:
        with self._arrival:
            if piece.row_count or piece.losses:
                self._in_flight.finish_pull(number, piece.row_count, piece.byte_count)
                self._ready.append((number, piece))
                self._consumer_waits = False
                self._arrival.notify()
            else:  # the consumer would find nothing in it
                self._in_flight.finish_pull(number, 0, 0)
                self._room.notify_all()

    def _pull(self, lane: Lane[T]) -> Piece[T]:
        """Pulls once, and once more if the broker was unavailable while the consumer was busy.

        The second pull starts when the consumer waits, because it may have been busy for longer than a request may
        take.
        """
        consumer_waited = self._consumer_waits
        try:
            return lane.pull()
        except BrokerUnavailable:
            if consumer_waited and self._consumer_waits:
                raise
        with self._room:
            self._room.wait_for(lambda: self._is_closed or self._consumer_waits)
        return lane.pull()
