"""The attempts of pulls that brought nothing: when each is repeated, and when time is up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

from rmqpull_client.connection import Connection
from rmqpull_client.errors import RmqpullError
from rmqpull_client.transports.pauses import make_pauses_s
from rmqpull_client.transports.remoting.network import failures
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.reading.segments import Segment
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand

PULL = RemotingCommand(RequestCode.PULL_MESSAGE)
"""What errors call the request."""


class _Trouble:
    """The attempts of one pull, the first of which was sent at ``since_s``."""

    __slots__ = ("attempts", "pauses_s", "since_s")

    def __init__(self, since_s: float, attempts: failures.Attempts, pauses_s: Iterator[float | None]) -> None:
        self.since_s = since_s
        self.attempts = attempts
        self.pauses_s = pauses_s


class PullRepeats:
    """The pulls that wait for their next attempt. ``now_s`` returns the time.

    Methods raise the error of all attempts of a pull when its retries or its time are used up.
    """

    def __init__(self, connection: Connection, now_s: Callable[[], float]) -> None:
        self._connection = connection
        self._limit_s = connection.request_timeout_ms / 1000
        self._now_s = now_s
        self._troubles: dict[Segment, _Trouble] = {}
        self._waiting: list[tuple[float, int, Segment]] = []
        self._order = count()

    @property
    def next_s(self) -> float | None:
        """When the next pull is due."""
        return self._waiting[0][0] if self._waiting else None

    def forget(self, segment: Segment) -> None:
        """Notes that a pull made progress."""
        if self._troubles:
            self._troubles.pop(segment, None)

    def add_lost(self, segment: Segment, place: Place, lost: ConnectionLost) -> None:
        """Repeats a pull whose connection was lost."""
        is_first = segment not in self._troubles
        trouble = self._get(segment)
        trouble.attempts.add_lost(place, lost)
        if is_first and lost.cause is Cause.CLOSED:
            # Perhaps the server closed it as idle while the consumer was busy. This is no attempt.
            self._put(segment, self._now_s())
        else:
            self._repeat(segment, trouble)

    def add_response(self, segment: Segment, place: Place, response: RemotingCommand) -> None:
        """Repeats a pull after a response that asks for it."""
        trouble = self._get(segment)
        trouble.attempts.add_busy(place, response)
        self._repeat(segment, trouble)

    def add_not_located(self, segment: Segment, error: RmqpullError) -> None:
        """Repeats a pull that could not be sent, as no broker for it is known."""
        trouble = self._get(segment)
        trouble.attempts.add_not_located(error)
        self._repeat(segment, trouble)

    def take_due(self) -> list[Segment]:
        """Returns the pulls to send now."""
        due = []
        while self._waiting and self._waiting[0][0] <= self._now_s():
            due.append(heapq.heappop(self._waiting)[2])
        return due

    def check_age(self, segment: Segment, place: Place) -> None:
        """Raises the error of a pull in flight that was not responded to in time."""
        trouble = self._troubles.get(segment)
        if self._now_s() - (segment.sent_s if trouble is None else trouble.since_s) >= self._limit_s:
            attempts = self._get(segment).attempts
            attempts.add_lost(place, ConnectionLost(Cause.TIMED_OUT, "no response"))
            raise attempts.make_error()

    def _get(self, segment: Segment) -> _Trouble:
        trouble = self._troubles.get(segment)
        if trouble is None:
            attempts = failures.Attempts(self._connection, Target.of(segment.queue), PULL)
            trouble = _Trouble(self._now_s(), attempts, make_pauses_s(self._connection))
            self._troubles[segment] = trouble
        return trouble

    def _repeat(self, segment: Segment, trouble: _Trouble) -> None:
        trouble.attempts.count_try()
        pause_s, now_s = next(trouble.pauses_s), self._now_s()
        if pause_s is None or now_s + pause_s - trouble.since_s >= self._limit_s:
            raise trouble.attempts.make_error()
        self._put(segment, now_s + pause_s)

    def _put(self, segment: Segment, due_s: float) -> None:
        heapq.heappush(self._waiting, (due_s, next(self._order), segment))
