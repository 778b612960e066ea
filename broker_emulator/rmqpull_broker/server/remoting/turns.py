"""Turns of connections: limits how much of each turn of the event loop their frames take, however many they are."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Protocol

from rmqpull_broker.server.runtime.slices import SLICE_S, Clock, Slice

LONG_S = 4 * SLICE_S
"""A connection that occupies the loop for longer than this, although its slice is over, is heavy."""
RESTS = 2
"""Heavy connections rest for this many times as long as they have worked."""
ALONE_S = 1.0
"""Heavy connections rest only if others were served within this many seconds."""


class TurnTaker(Protocol):
    """A connection that handles what it has received."""

    is_heavy: bool
    """Whether it occupied the loop for too long the last time."""

    def handle_received(self, slice_: Slice) -> bool:
        """Handles what was received until a slice is over. Returns whether there is more."""


class Turns:
    """Gives connections their turns. Belongs to the event loop.

    In one turn of the loop, connections that have just received something share one slice, and those that need more
    time share another. So a request waits for two slices, not for one of each other connection. A single request may
    take longer than a slice: then all heavy connections rest together, for twice the time of that request, so that a
    request of another connection seldom waits for two of theirs.
    """

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._shared: Slice | None = None
        self._arrived: deque[TurnTaker] = deque()
        self._unfinished: deque[TurnTaker] = deque()
        self._is_due = False
        self._rest_ends_s = 0.0
        # Who was served last and when, by id: a reference would keep a closed connection. If another one gets the same
        # id, there is one rest too many or too few.
        self._light: tuple[int, float] = (0, -ALONE_S)
        self._light_before_s = -ALONE_S

    def take(self, connection: TurnTaker) -> None:
        """Runs a connection's work at once if this turn of the loop has time for it, and otherwise in later turns."""
        if connection.is_heavy:
            self._unfinished.append(connection)
            self._plan_unfinished()
            return
        if self._shared is None:
            self._shared = Slice(self._clock)
            asyncio.get_running_loop().call_soon(self._begin_turn)
        if self._shared.is_over:
            self._arrived.append(connection)
        else:
            self._run(connection, self._shared)

    def _begin_turn(self) -> None:
        if self._arrived:
            self._shared = Slice(self._clock)
            asyncio.get_running_loop().call_soon(self._begin_turn)
            self._share(self._arrived, self._shared)
        else:
            self._shared = None

    def _plan_unfinished(self) -> None:
        """Gives those that need more time another slice in the next turn of the loop, or when their rest is over."""
        if self._is_due:
            return
        self._is_due = True
        rest_s = self._rest_ends_s - self._clock()
        if rest_s > 0:
            asyncio.get_running_loop().call_later(rest_s, self._go_on)
        else:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        self._is_due = False
        if self._rest_ends_s <= self._clock():
            self._share(self._unfinished, Slice(self._clock))
        if self._unfinished:
            self._plan_unfinished()

    def note_long_work(self, connection: TurnTaker, seconds: float) -> None:
        """Learns that a connection has kept the loop for longer than LONG_S, by a request or by a step of one."""
        connection.is_heavy = True
        now_s = self._clock()
        last, last_s = self._light
        if now_s - (last_s if last != id(connection) else self._light_before_s) < ALONE_S:
            self._rest_ends_s = max(self._rest_ends_s, now_s + RESTS * seconds)

    def _share(self, waiting: deque[TurnTaker], slice_: Slice) -> None:
        """Runs what waits until the slice is over, and one in any case."""
        while waiting:
            self._run(waiting.popleft(), slice_)
            if slice_.is_over:
                return

    def _run(self, connection: TurnTaker, slice_: Slice) -> None:
        was_heavy, begun_s = connection.is_heavy, self._clock()
        has_more = connection.handle_received(slice_)
        now_s = self._clock()
        connection.is_heavy = False
        if now_s - begun_s > LONG_S:
            self.note_long_work(connection, now_s - begun_s)
        elif not was_heavy:
            if self._light[0] != id(connection):
                self._light_before_s = self._light[1]
            self._light = (id(connection), now_s)
        if has_more:
            self._unfinished.append(connection)
            self._plan_unfinished()
