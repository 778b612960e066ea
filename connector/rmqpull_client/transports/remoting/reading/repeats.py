"""The attempts of pulls that brought nothing: when each is repeated, and when time is up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count

from rmqpull_client.connection import Connection
from rmqpull_client.errors import RmqpullError
from rmqpull_client.transports.away import WAITS, TimeLimit
from rmqpull_client.transports.pauses import make_pauses_s
from rmqpull_client.transports.remoting.network.attempts import Attempts
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.reading.pull_plan import Span
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand

PULL = RemotingCommand(RequestCode.PULL_MESSAGE)
"""What errors call the request."""


class _Trouble:
    """The attempts of one pull."""

    __slots__ = ("attempts", "limit", "pauses_s")

    def __init__(self, limit: TimeLimit, attempts: Attempts, pauses_s: Iterator[float | None]) -> None:
        self.limit = limit
        self.attempts = attempts
        self.pauses_s = pauses_s

    def may_wait(self, now_s: float) -> bool:
        """Extends the deadline if its broker is away and may come back. Returns whether it did."""
        return self.attempts.is_away and self.limit.extend(now_s)


class PullRepeats:
    """The pulls that wait for their next attempt. ``now_s`` returns the time.

    Methods raise the error of all attempts of a pull when its retries or its time are used up.
    """

    def __init__(self, connection: Connection, now_s: Callable[[], float]) -> None:
        self._connection = connection
        self._now_s = now_s
        self._troubles: dict[Span, _Trouble] = {}
        self._waiting: list[tuple[float, int, Span]] = []
        self._order = count()

    @property
    def next_s(self) -> float | None:
        """When the next pull is due."""
        return self._waiting[0][0] if self._waiting else None

    def forget(self, span: Span) -> None:
        """Notes that a pull made progress."""
        if self._troubles:
            self._troubles.pop(span, None)

    def add_lost(self, span: Span, place: Place, lost: ConnectionLost) -> None:
        """Repeats a pull whose connection was lost."""
        is_first = span not in self._troubles
        trouble = self._get(span)
        trouble.attempts.add_lost(place, lost)
        if trouble.attempts.is_hopeless:
            raise trouble.attempts.make_error()
        if is_first and lost.cause is Cause.CLOSED:
            # Perhaps the server closed it as idle while the consumer was busy. This is no attempt.
            self._put(span, self._now_s())
        else:
            self._repeat(span, trouble)

    def add_response(self, span: Span, place: Place, response: RemotingCommand) -> None:
        """Repeats a pull after a response that asks for it."""
        trouble = self._get(span)
        trouble.may_wait(self._now_s())  # a broker that has just come back is busy at first
        trouble.attempts.add_busy(place, response)
        self._repeat(span, trouble)

    def add_not_located(self, span: Span, error: RmqpullError) -> None:
        """Repeats a pull that could not be sent, as no broker for it is known."""
        trouble = self._get(span)
        trouble.attempts.add_not_located(error, is_planned=True)
        self._repeat(span, trouble)

    def take_due(self) -> list[Span]:
        """Returns the pulls to send now."""
        due = []
        while self._waiting and self._waiting[0][0] <= self._now_s():
            due.append(heapq.heappop(self._waiting)[2])
        return due

    def is_overdue(self, span: Span, place: Place) -> bool:
        """Whether a pull in flight got no response in time, so that its broker counts as away.

        Raises the error of the pull if there is no time left.
        """
        now_s = self._now_s()
        trouble = self._troubles.get(span)
        limit = TimeLimit.of(self._connection, span.sent_s) if trouble is None else trouble.limit
        if now_s < limit.deadline_s:
            return False
        trouble = self._get(span, span.sent_s)
        trouble.attempts.add_lost(place, ConnectionLost(Cause.TIMED_OUT, "no response"))
        if not trouble.may_wait(now_s):
            raise trouble.attempts.make_error()
        return True

    def _get(self, span: Span, since_s: float | None = None) -> _Trouble:
        trouble = self._troubles.get(span)
        if trouble is None:
            attempts = Attempts(self._connection, Target.of(span.queue), PULL)
            limit = TimeLimit.of(self._connection, self._now_s() if since_s is None else since_s)
            trouble = _Trouble(limit, attempts, make_pauses_s(self._connection))
            self._troubles[span] = trouble
        return trouble

    def _repeat(self, span: Span, trouble: _Trouble) -> None:
        trouble.attempts.count_try()
        pause_s, now_s = next(trouble.pauses_s), self._now_s()
        next_s = now_s if pause_s is None else now_s + pause_s
        if pause_s is None or (next_s >= trouble.limit.deadline_s and not trouble.may_wait(next_s)):
            raise trouble.attempts.make_error()
        if trouble.attempts.is_away:
            WAITS.note(trouble.limit, now_s, trouble.attempts.servers)
        self._put(span, now_s + pause_s)

    def _put(self, span: Span, due_s: float) -> None:
        heapq.heappush(self._waiting, (due_s, next(self._order), span))
