"""Pulling ahead of Spark: several lanes at once, each in its order, whoever answers first is taken first.

Each lane's pulls are made by a thread, so that one that is slow or tries again holds up nobody else. All memory is
counted by :class:`rmqpull_client.in_flight.InFlight`; besides, Spark has one batch in its hands. Nothing here happens
once per message.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.flow import FlowLimits, InFlight
from rmqpull_client.loss import Loss

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LANES_AT_ONCE = 8
"""Lanes that a task pulls at the same time."""
BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
"""One Arrow batch as Spark takes it (rules 9.2), or one message that is larger."""


@dataclass(frozen=True)
class Piece(Generic[T_co]):
    """What one pull found: its rows as the transport has them, and what it showed to be gone."""

    rows: T_co
    row_count: int
    byte_count: int
    losses: Sequence[Loss] = ()


class Lane(Protocol[T_co]):
    """What is pulled one pull after the other."""

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to pull."""

    def pull(self) -> Piece[T_co]:
        """Makes one pull and moves on behind it; after an error the lane stands where it stood."""

    def cancel(self) -> None:
        """Has the pull under way, and any later one, end at once with an error. Called from another thread."""


class ReadAhead(Generic[T]):
    """The pieces of all lanes, some at a time, as soon as they are there.

    ``linger_s`` is how long a batch that is not full waits for more, for pulls that bring few messages.
    """

    def __init__(self, lanes: Sequence[Lane[T]], limits: FlowLimits, linger_s: float = 0) -> None:
        self._lanes = lanes
        self._linger_s = linger_s
        self._in_flight = InFlight(limits)
        self._untouched = deque(enumerate(lanes))
        self._ready: deque[tuple[int, Piece[T] | Exception]] = deque()
        self._at_work = min(len(lanes), LANES_AT_ONCE)
        self._is_waited_for = self._is_closed = False
        lock = threading.Lock()
        self._news = threading.Condition(lock)  # for the one who reads
        self._room = threading.Condition(lock)  # for those who pull

    def __iter__(self) -> Iterator[list[Piece[T]]]:
        """Ends, and raises, as the lanes do; pulls end when the iterator is closed."""
        threads = [
            threading.Thread(target=self._work, name=f"rmqpull-pull-{number}", daemon=True)
            for number in range(self._at_work)
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

    # --- the one who reads ---------------------------------------------------------------------------------------

    def _take(self) -> list[Piece[T]]:
        """What is there, up to a batch; nothing when all is read."""
        pieces: list[Piece[T]] = []
        rows = byte_count = 0
        until_s: float | None = None
        with self._news:
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
        """Waits for the next piece while there may be one, but only until then."""
        if not self._ready and self._at_work:
            self._is_waited_for = True
            self._room.notify_all()
            left_s = None if until_s is None else max(until_s - time.monotonic(), 0)
            self._news.wait_for(lambda: self._ready or not self._at_work, left_s)
            self._is_waited_for = False
        return bool(self._ready)

    def _close(self) -> None:
        with self._room:
            self._is_closed = True
            self._untouched.clear()
            self._ready.clear()
            self._room.notify_all()
        for lane in self._lanes:
            lane.cancel()

    # --- those who pull ------------------------------------------------------------------------------------------

    def _work(self) -> None:
        """Pulls one lane after the other to its end."""
        number = -1
        try:
            while (numbered := self._next_lane()) is not None:
                number, lane = numbered
                while not lane.is_done and self._begin(number):
                    self._arrive(number, self._pull(lane))
        except Exception as error:  # noqa: BLE001 - whatever it is, the one who reads gets it
            with self._news:
                self._ready.append((number, error))
        finally:
            with self._news:
                self._at_work -= 1
                self._news.notify()

    def _next_lane(self) -> tuple[int, Lane[T]] | None:
        with self._room:
            return self._untouched.popleft() if self._untouched else None

    def _begin(self, lane: int) -> bool:
        """Waits until a pull is within the limits. False when nobody wants it any more."""
        with self._room:
            self._room.wait_for(lambda: self._is_closed or self._in_flight.may_pull(lane))
            self._in_flight.start_pull()
            return not self._is_closed

    def _arrive(self, number: int, piece: Piece[T]) -> None:
        with self._news:
            if piece.row_count or piece.losses:
                self._in_flight.finish_pull(number, piece.row_count, piece.byte_count)
                self._ready.append((number, piece))
                self._is_waited_for = False
                self._news.notify()
            else:  # nobody will take it
                self._in_flight.finish_pull(number, 0, 0)
                self._room.notify_all()

    def _pull(self, lane: Lane[T]) -> Piece[T]:
        """A broker that was away while nobody waited is asked again as soon as somebody does: Spark may take longer
        over a batch than a request may last."""
        was_waited_for = self._is_waited_for
        try:
            return lane.pull()
        except BrokerUnavailable:
            if was_waited_for and self._is_waited_for:
                raise
        with self._room:
            self._room.wait_for(lambda: self._is_closed or self._is_waited_for)
        return lane.pull()
