"""The requests of a producer: which goes to which queue and when, and what happens after each response.

It knows neither connections nor the time: the producer tells it both. A request of an ordered queue waits until the
earlier one is stored, because a broker's threads may reorder. All others go out together, to the queues in turn, and
move to another broker if theirs does not store them (rules 1.18).

A request is stored only if the broker answers 0. Codes 10, 11 and 12 mean that a disk or a slave may lack it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

from rmqpull_client.errors import RmqpullError
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.away import TimeLimit
from rmqpull_client.transports.remoting.sending.queue_choice import Turns
from rmqpull_client.transports.remoting.sending.send_request import (
    HALVINGS_MAX,
    INTERVAL_MAX_S,
    Outcome,
    SendLimits,
    SendRequest,
)

ROOM = 512
"""What one producer may have in flight at a broker: this many single messages, or eight batches."""

_Key = TypeVar("_Key")
_AWAY_S = 1.0
_ATTEMPT_SHARE = 0.6  # of the time limit: a broker that waits for its slave answers after 5 s


@dataclass
class _Broker:
    room: int = ROOM
    in_flight: int = 0
    away_until_s: float = 0.0

    def has_room(self, cost: int) -> bool:
        return self.in_flight == 0 or self.in_flight + cost <= self.room


@dataclass
class Outbox:
    """Holds requests until they are stored, refused or failed. Times are seconds of one clock."""

    turns: Turns
    limits: SendLimits
    _free: dict[str, deque[SendRequest]] = field(default_factory=dict)
    """Requests for any queue of a topic, except those that pause."""
    _ordered: dict[MessageQueue, deque[SendRequest]] = field(default_factory=dict)
    """Requests for one queue. The first one may be in flight, or pause."""
    _paused: list[SendRequest] = field(default_factory=list)
    _in_flight: set[SendRequest] = field(default_factory=set)
    _brokers: dict[str, _Broker] = field(default_factory=dict)

    def add(self, request: SendRequest) -> None:
        """Takes a request. Requests for one ordered queue are sent in the order in which they come."""
        request.call.open_count += 1
        if request.ordered_queue is None:
            self._free.setdefault(request.topic, deque()).append(request)
        else:
            self._ordered.setdefault(request.ordered_queue, deque()).append(request)

    def take_ready(self, now_s: float) -> Iterator[SendRequest]:
        """Yields the requests that go out now, each with its queue. They are in flight from then on."""
        self._end_pauses(now_s)
        for queue in list(self._ordered):
            request = self._ordered[queue][0]
            if request not in self._in_flight and request not in self._paused and self._has_room(request, queue):
                yield self._send(request, queue, now_s)
        for topic in list(self._free):
            waiting = self._free[topic]
            while waiting and (chosen := self._choose(waiting[0], now_s)) is not None:
                yield self._send(waiting.popleft(), chosen, now_s)
            if not waiting:
                del self._free[topic]

    def _end_pauses(self, now_s: float) -> None:
        for request in [request for request in self._paused if request.not_before_s <= now_s]:
            self._paused.remove(request)
            if request.ordered_queue is None:
                self._free.setdefault(request.topic, deque()).appendleft(request)

    def _has_room(self, request: SendRequest, queue: MessageQueue) -> bool:
        return self._broker(queue).has_room(request.cost)

    def _choose(self, request: SendRequest, now_s: float) -> MessageQueue | None:
        """Chooses the next queue whose broker has room and is not away. None: it has to wait for room."""
        usable = [self._has_room(request, queue) for queue in request.queues]
        near = [self._broker(queue).away_until_s <= now_s for queue in request.queues]
        if any(near):
            usable = [room and is_near for room, is_near in zip(usable, near, strict=True)]
        if request.queue is not None:  # its last attempt failed
            tried = request.queue.broker_name
            others = [room and queue.broker_name != tried for room, queue in zip(usable, request.queues, strict=True)]
            usable = others if any(others) else usable
        return request.queues[self.turns.take(request.topic, usable)] if any(usable) else None

    def _send(self, request: SendRequest, queue: MessageQueue, now_s: float) -> SendRequest:
        request.queue = queue
        if request.limit is None:
            limits = self.limits
            request.limit = TimeLimit(limits.timeout_s, limits.away_s, now_s, now_s + limits.timeout_s)
        request.attempt_until_s = min(request.limit.deadline_s, now_s + self.limits.timeout_s * _ATTEMPT_SHARE)
        self._in_flight.add(request)
        self._broker(queue).in_flight += request.cost
        return request

    def _broker(self, queue: MessageQueue) -> _Broker:
        broker = self._brokers.get(queue.broker_name)
        if broker is None:
            broker = self._brokers[queue.broker_name] = _Broker()
        return broker

    def settle(self, request: SendRequest, outcome: Outcome, error: RmqpullError | None, now_s: float) -> None:
        """Records the outcome of a request in flight. ``error`` says why it was not stored."""
        assert request.queue is not None, "it was sent"
        broker = self._broker(request.queue)
        self._in_flight.discard(request)
        broker.in_flight -= request.cost
        if request.call.error is not None:
            return
        request.error = error
        match outcome:
            case Outcome.STORED:
                broker.away_until_s = 0.0
                broker.room = min(broker.room + request.cost // 4 + 1, ROOM)  # it grows until BUSY halves it
                self._close(request)
                return
            case Outcome.ILLEGAL:
                self._halve(request)
                return
            case Outcome.REFUSED:
                self.fail(request)
                return
            case Outcome.BUSY:
                broker.room = max(broker.room // 2, 1)
            case Outcome.LOST:
                broker.away_until_s = now_s + _AWAY_S
        self._pause(request, now_s, is_away=outcome is Outcome.LOST)

    def _close(self, request: SendRequest) -> None:
        request.call.open_count -= 1
        if request.ordered_queue is not None:
            waiting = self._ordered[request.ordered_queue]
            waiting.popleft()
            if not waiting:
                del self._ordered[request.ordered_queue]

    def _halve(self, request: SendRequest) -> None:
        """Halves a refused batch, until its illegal messages are alone: nothing of a refused batch is stored."""
        self._close(request)
        call, topic, queues, ordered = request.call, request.topic, request.queues, request.ordered_queue
        if not request.is_batch or request.halvings >= HALVINGS_MAX:
            call.reasons.update(dict.fromkeys(request.content.rows, str(request.error)))
            return
        halves = [
            SendRequest(call, topic, queues, ordered, content, request.halvings + 1)
            for content in request.content.halve()
        ]
        call.open_count += len(halves)
        if ordered is None:
            self._free.setdefault(topic, deque()).extendleft(reversed(halves))
        else:
            self._ordered.setdefault(ordered, deque()).extendleft(reversed(halves))

    def _pause(self, request: SendRequest, now_s: float, is_away: bool) -> None:
        assert request.limit is not None, "it was sent"
        pause_s = min(self.limits.interval_s * 2 ** min(request.retries, 20), INTERVAL_MAX_S)
        request.retries += 1
        request.not_before_s = now_s + pause_s
        if request.not_before_s >= request.limit.deadline_s and (is_away or request.was_away):
            request.limit.extend(request.not_before_s)  # a broker that has just come back is busy at first
        request.was_away = is_away
        self._paused.append(request)

    def find_failed(self) -> list[SendRequest]:
        """Returns the requests whose retry the limits do not allow."""
        return [request for request in self._paused if self._is_used_up(request)]

    def _is_used_up(self, request: SendRequest) -> bool:
        if self.limits.retries_max is not None and request.retries > self.limits.retries_max:
            return True
        return request.limit is not None and request.not_before_s >= request.limit.deadline_s

    def fail(self, request: SendRequest) -> None:
        """Ends the call of a request with its error. What waits behind it in its ordered queue fails with it."""
        behind = self._ordered.get(request.ordered_queue, ()) if request.ordered_queue is not None else ()
        for each in (request, *behind):
            if each.call.error is None:
                each.call.error = request.error
        self._drop_failed()

    def forgive(self, away_s: float) -> None:
        """Moves all time limits by time in which nobody handled responses."""
        for request in self._in_flight:
            request.attempt_until_s += away_s
        waiting = chain(self._in_flight, self._paused, *self._free.values(), *self._ordered.values())
        for request in set(waiting):  # the first one of an ordered queue may be in flight, or pause
            if request.limit is not None:
                request.limit.shift(away_s)

    def _drop_failed(self) -> None:
        """Drops the waiting requests of failed calls. Requests in flight still get their responses."""
        self._paused = [request for request in self._paused if request.call.error is None]
        self._free = _keep_open(self._free)
        self._ordered = _keep_open(self._ordered)

    def find_next_s(self) -> float | None:
        """Returns when something is due without a response: a retry, or a broker to count as away. None: never."""
        times = [request.not_before_s for request in self._paused]
        times += [request.attempt_until_s for request in self._in_flight]
        return min(times, default=None)


def _keep_open(waiting: dict[_Key, deque[SendRequest]]) -> dict[_Key, deque[SendRequest]]:
    kept = {key: deque(request for request in each if request.call.error is None) for key, each in waiting.items()}
    return {key: each for key, each in kept.items() if each}
