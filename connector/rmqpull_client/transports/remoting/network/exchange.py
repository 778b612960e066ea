"""Many requests to many servers at once, driven by the calling thread, with deadlines and retries.

An :class:`Exchange` borrows a connection for each server. Requests go out together and responses come in any order. A
request whose connection is lost, or whose server is busy, is sent again within the connection's retries and deadline.
The deadline is extended while servers that were there before are away. A proxy gets only as many requests as it can
respond to, on several connections.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TypeAlias

from rmqpull_client.errors import RmqpullError
from rmqpull_client.transports.away import ANSWERED, WAITS, TimeLimit, make_key
from rmqpull_client.transports.pauses import make_pauses_s
from rmqpull_client.transports.remoting.network import failures, proxies
from rmqpull_client.transports.remoting.network.attempts import Attempts
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.links import Link, Links
from rmqpull_client.transports.remoting.network.servers import NotLocatedYet, Servers
from rmqpull_proto.remoting.codes import ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, decode_command

CONNECTING_MAX_S = 5.0
SUCCESS = frozenset((int(ResponseCode.SUCCESS),))
ANY_CODE = range(-(1 << 31), 1 << 31)
"""Makes a call accept every response as a result, whatever its code."""
_Link: TypeAlias = Link[str, Call]
"""A connection to an address."""


class Exchange:
    """See the module. One thread uses it; close it at the end, best with ``with``."""

    def __init__(self, servers: Servers, clock: Callable[[], float] = time.monotonic) -> None:
        self._servers = servers
        self._clock = clock
        self._links = Links[str, Call](servers, self._take_in, self._on_lost)
        self._waiting: list[Call] = []
        self._due: deque[Call] = deque()  # those that a proxy has no room for

    def __enter__(self) -> Exchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- calls --------------------------------------------------------------------------------------------------------

    def start(
        self,
        target: Target,
        command: RemotingCommand,
        *,
        accepted: Collection[int] = SUCCESS,
        may_repeat: bool = True,
        extra_ms: int = 0,
        deadline_s: float | None = None,
        is_tried_once: bool = False,
    ) -> Call:
        """Adds a request. :meth:`advance` and :meth:`wait` send it.

        Args:
            target: Whom it is for.
            command: The request; names of topics and groups without the namespace.
            accepted: The response codes that are results. Others become exceptions.
            may_repeat: Whether the request may be sent again when it is not known whether the server has executed it.
            extra_ms: The time that the broker may park the request.
            deadline_s: When to give up. Default: the request timeout and ``extra_ms`` after the call of :meth:`wait`.
            is_tried_once: Whether each place of the target gets one attempt, and none later.
        """
        connection = self._servers.connection
        limit = TimeLimit.of(connection, self._clock(), extra_ms / 1000)
        if deadline_s is not None:
            limit.shift(deadline_s - limit.deadline_s)
        if is_tried_once:
            limit.away_s = 0.0
        call = Call(
            target,
            command,
            accepted,
            may_repeat,
            limit,
            deadline_s is not None,
            Attempts(connection, target, command),
            iter((None,)) if is_tried_once else make_pauses_s(connection),
            proxies.SILENCE_S + extra_ms / 1000 if may_repeat and not is_tried_once else math.inf,
            proxies.count_response_bytes(command.code, len(command.body)),
        )
        self._waiting.append(call)
        return call

    def wait(self, calls: Sequence[Call]) -> list[RemotingCommand]:
        """Returns the responses to calls, in their order. Raises the first error that comes up.

        A call without a deadline of its own gets its full time from now: the caller may have been busy since the start.
        """
        now_s = self._clock()
        for call in calls:
            call.renew(now_s)
        while not all(call.is_done for call in calls):
            self.advance()
            for call in calls:
                if call.error is not None:
                    raise call.error
        return [call.get_response() for call in calls]

    def advance(self, timeout_s: float | None = None) -> None:
        """Sends what is due, waits until something happens or for ``timeout_s``, and handles responses."""
        self._start_due()
        self._links.flush()
        alarm_s = self._next_alarm_s()
        left_s = max(0.0, alarm_s - self._clock()) if alarm_s is not None else 0.0
        if timeout_s is not None:
            left_s = min(left_s, timeout_s) if alarm_s is not None else timeout_s
        self._links.receive(left_s)
        self._give_up_late()

    def close(self) -> None:
        """Gives the connections back. Calls that are not done get no response."""
        self._links.close()
        self._waiting.clear()
        self._due.clear()

    # --- sending ------------------------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        now_s = self._clock()
        self._due += (call for call in self._waiting if call.due_s <= now_s)
        self._waiting = [call for call in self._waiting if call.due_s > now_s]
        while self._due and self._send(self._due[0]):
            self._due.popleft()

    def _send(self, call: Call) -> bool:
        """Sends a request, or notes why that fails. Returns False if it has to wait for room."""
        try:
            places = self._servers.find_places(call.target, call.deadline_s)
        except NotLocatedYet as reason:
            call.attempts.add_not_located(reason.error)
            self._pause(call)
            return True
        except RmqpullError as error:
            call.error = error
            return True
        place = next((place for place in places if place.address not in call.failed), places[0])
        left = max(1, sum(place.address not in call.failed for place in places))
        now_s = self._clock()
        try:
            link = self._find_link(place, call, now_s)
            if link is None:
                return False
            link.send([call], lambda call, opaque: self._servers.encode(call.command, opaque, place.broker_name))
        except ConnectionLost as lost:
            self._fail(call, place, lost)
            return True
        except RmqpullError as error:
            call.error = error
            return True
        # Each place that is left to try gets an equal share of the time.
        attempt_s = max(0.001, (call.deadline_s - now_s) / left)
        call.until_s = now_s + (min(attempt_s, call.silence_s) if place.is_proxy else attempt_s)
        return True

    def _find_link(self, place: Place, call: Call, now_s: float) -> _Link | None:
        """Returns a connection for a call, or None while a proxy has no room for it."""
        left_bytes = proxies.ROOM_BYTES - call.response_bytes
        link = self._links.find(
            place.address,
            lambda link: sum(each.response_bytes for each in link.requests.values()) <= left_bytes,
        )
        if link is not None or self._links.is_full(place.address):
            return link
        # An address that does not respond must leave time for another attempt.
        connect_s = min(CONNECTING_MAX_S, max(0.05, (call.deadline_s - now_s) / 2))
        link = self._links.open(place.address, place, now_s + connect_s, call.connects)
        call.connects += 1
        return link

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _take_in(self, link: _Link, frames: Iterable[tuple[int, int]]) -> None:
        buffer = link.connection.buffer
        for start, end in frames:
            self._accept(link, decode_command(bytes(buffer[start:end])))

    def _accept(self, link: _Link, response: RemotingCommand) -> None:
        """Handles a response. One that nobody waits for is dropped, and so is a request from the server."""
        call = link.requests.pop(response.opaque, None) if response.is_response else None
        if call is None:
            return
        ANSWERED.add(make_key(self._servers.connection, link.place.address))
        link.is_leaving = link.is_leaving or failures.is_leaving(response)
        if response.code in call.accepted:
            call.response, call.place = response, link.place
        elif failures.is_busy(response) or failures.is_left_to_master(link.place, response):
            call.may_wait(self._clock())  # a server that has just come back is busy at first
            call.attempts.add_busy(link.place, response)
            self._pause(call)
        else:
            call.error = failures.make_refusal(link.place, call.command, response)

    # --- failing ------------------------------------------------------------------------------------------------------

    def _next_alarm_s(self) -> float | None:
        alarms = [call.due_s for call in self._waiting]
        for link in self._links:
            if link.requests and not link.connection.is_open:
                alarms.append(link.until_s)
            alarms += (call.until_s for call in link.requests.values())
        return min(alarms, default=None)

    def _give_up_late(self) -> None:
        now_s = self._clock()
        self._links.give_up_unopened(now_s)
        for link in self._links:
            for opaque in [opaque for opaque, call in link.requests.items() if now_s >= call.until_s]:
                link.is_leaving = True
                self._fail(link.requests.pop(opaque), link.place, ConnectionLost(Cause.TIMED_OUT, "no response"))
        self._links.end_leaving()

    def _on_lost(self, link: _Link, calls: Iterable[Call], lost: ConnectionLost) -> None:
        """Repeats the calls that were in flight on a connection that was lost."""
        connection = link.connection
        is_stale = connection.is_reused and not connection.has_received and lost.cause is Cause.CLOSED
        for call in calls:
            if is_stale and not call.was_stale and call.may_repeat:
                call.was_stale = True  # the server had closed the idle connection: this does not count as an attempt
                self._waiting.append(call)
            else:
                self._fail(call, link.place, lost)

    def _fail(self, call: Call, place: Place, lost: ConnectionLost) -> None:
        """Records a failed attempt, and schedules another one if the limits allow it."""
        call.attempts.add_lost(place, lost)
        self._servers.note_lost(call.target, place, lost)
        was_sent = lost.cause not in (Cause.NOT_CONNECTED, Cause.CLOSED_IN_HANDSHAKE, Cause.HANDSHAKE)
        now_s = self._clock()
        if (was_sent and not call.may_repeat) or (now_s >= call.deadline_s and not call.may_wait(now_s)):
            call.error = call.attempts.make_error()
            return
        call.failed.add(place.address)
        try:
            places = self._servers.find_places(call.target, call.deadline_s)
        except (NotLocatedYet, RmqpullError):
            places = ()
        if any(place.address not in call.failed for place in places):
            self._waiting.append(call)
        elif call.attempts.is_hopeless:
            call.error = call.attempts.make_error()
        else:
            self._pause(call)

    def _pause(self, call: Call) -> None:
        """Schedules the next try after a pause, unless retries or time are used up."""
        call.failed.clear()
        call.attempts.count_try()
        pause_s = next(call.pauses_s)
        now_s = self._clock()
        call.attempts.is_out_of_tries = pause_s is None
        if pause_s is None or (now_s + pause_s >= call.deadline_s and not call.may_wait(now_s + pause_s)):
            call.error = call.attempts.make_error()
            return
        if call.attempts.is_away:
            WAITS.note(call.limit, now_s, call.attempts.servers)
        call.due_s = now_s + pause_s
        self._waiting.append(call)
