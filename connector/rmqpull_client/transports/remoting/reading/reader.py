"""Drives the pulls of one read: many in flight on one connection per broker, in the calling thread.

A proxy, which can answer only a few pulls at a time on each connection, gets several connections. While the consumer is
busy, nothing is sent, and the kernel keeps receiving the responses. When the consumer returns, the next pulls are sent
before rows are decoded.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from rmqpull_client.connection import MASTER_ID
from rmqpull_client.flow import BATCH_BYTES, BATCH_ROWS
from rmqpull_client.model import MessageFilter, MessageQueue
from rmqpull_client.transports.away import ANSWERED, make_key
from rmqpull_client.transports.port import OnReset, log_reset
from rmqpull_client.transports.remoting.network import failures, proxies
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.links import Link, Links
from rmqpull_client.transports.remoting.network.servers import NotLocatedYet, Servers
from rmqpull_client.transports.remoting.reading.pull_plan import PullPlan, Span, SpanPiece
from rmqpull_client.transports.remoting.reading.pulls import (
    PullFrames,
    ReceivedPull,
    Step,
    count_records,
    judge,
    parse_response,
)
from rmqpull_client.transports.remoting.reading.repeats import PULL, PullRepeats
from rmqpull_client.transports.remoting.reading.rows import QUEUE_GONE
from rmqpull_proto.remoting.command import RemotingCommand

RECEIVE_BYTES = 8 << 20
"""The size of a receive buffer. A smaller one makes smaller batches, which cost more."""
LINGER_S = 0.05
"""How long a batch that is not full waits for more messages."""
AVOID_S = 5.0
"""How long a broker that could not be reached is avoided if there is another one with its name."""
_logger = logging.getLogger(__name__)
_LOOK_S = 0.25
"""How often time limits are checked while nothing arrives."""


class _Recipient(NamedTuple):
    """The recipient of the pulls of some queues: the master of a broker, whose id is 0, or a slave."""

    broker_name: str
    broker_id: int


class _Lane:
    """The pulls of one recipient. They go to another broker of the same name if the wanted one is away.

    A lane has one connection, or several if a proxy is in between. ``unsent`` are pulls that no connection has room
    for. ``window`` is how many a proxy may have in flight on each connection.
    """

    __slots__ = ("_largest_bytes", "recipient", "unsent", "window")

    def __init__(self, recipient: _Recipient) -> None:
        self.recipient = recipient
        self.window = 1
        self._largest_bytes = 0
        self.unsent: deque[Span] = deque()

    def note_response(self, byte_count: int) -> None:
        """Learns how large responses are."""
        if byte_count > self._largest_bytes:
            self._largest_bytes = byte_count
            self.window = proxies.count_pulls(byte_count)

    def take_unsent(self, link: _Link, now_s: float) -> list[Span]:
        """Takes the pulls that a connection has room for. They are sent now."""
        room = self.window - len(link.requests) if link.place.is_proxy else len(self.unsent)
        taken = [self.unsent.popleft() for _ in range(min(room, len(self.unsent)))]
        for span in taken:
            span.sent_s = now_s
        return taken


_Link: TypeAlias = Link[_Lane, Span]


class Reader:
    """Pulls what a plan wants.

    ``is_gone`` returns whether a queue's broker is there but lacks the topic. ``clock`` returns seconds.
    """

    def __init__(
        self,
        servers: Servers,
        group: str,
        plan: PullPlan,
        message_filter: MessageFilter,
        is_gone: Callable[[MessageQueue], bool],
        clock: Callable[[], float] = time.monotonic,
        on_reset: OnReset = log_reset,
    ) -> None:
        self._servers = servers
        self._group = group
        self._on_reset = on_reset
        self._plan = plan
        self._is_filtered = not message_filter.keeps_everything
        self._frames = PullFrames(servers, group, message_filter)
        self._limit_s = servers.connection.request_timeout_ms / 1000
        self._links = Links[_Lane, Span](
            servers, self._take_in, lambda link, spans, lost: self._leave(link.place, spans, lost)
        )
        self._lanes: dict[_Recipient, _Lane] = {}
        self._broker_ids: dict[MessageQueue, int] = {}  # where it is not the master
        self._avoided: dict[str, float] = {}  # until when, by address
        self._is_gone = is_gone
        self._clock = clock
        self._busy_s = 0.0  # how long the consumer has been busy in all
        self._left_at_s: float | None = None
        self._repeats = PullRepeats(servers.connection, self._now_s)

    # --- the consumer -------------------------------------------------------------------------------------------------

    def take(self) -> list[SpanPiece]:
        """Returns the next pieces, about a batch; none at the end. The next pulls are then in flight."""
        if self._left_at_s is not None:
            self._busy_s += self._clock() - self._left_at_s
        plan = self._plan
        pieces: list[SpanPiece] = []
        rows = byte_count = 0
        until_s: float | None = None
        while not plan.is_done:
            # Pieces in the batch no longer count as pulled ahead.
            if taken := plan.take(BATCH_ROWS - rows, BATCH_BYTES - byte_count, is_first=not pieces):
                pieces += taken
                rows += sum(piece.row_count for piece in taken)
                byte_count += sum(piece.byte_count for piece in taken)
                until_s = until_s or self._now_s() + LINGER_S
            self._send(plan.start_pulls())
            is_late = until_s is not None and self._now_s() >= until_s
            is_full = plan.has_ready or rows >= BATCH_ROWS or byte_count >= BATCH_BYTES
            if pieces and (is_full or is_late or plan.is_received):
                break
            if not plan.has_ready and not plan.is_received:
                self._wait(until_s)
        self._left_at_s = self._clock()
        return pieces

    def close(self) -> None:
        """Gives back idle connections, and closes those with pulls in flight."""
        self._links.close()

    def _now_s(self) -> float:
        """Returns the time minus that in which the consumer was busy, which counts towards no time limit."""
        return self._clock() - self._busy_s

    # --- sending ------------------------------------------------------------------------------------------------------

    def _send(self, spans: Iterable[Span]) -> None:
        """Sends pulls, those to one broker with one call, as far as a proxy has room for them."""
        for span in spans:
            queue = span.queue
            recipient = _Recipient(queue.broker_name, self._broker_ids.get(queue, MASTER_ID))
            lane = self._lanes.get(recipient)
            if lane is None:
                lane = self._lanes[recipient] = _Lane(recipient)
            lane.unsent.append(span)
        for lane in self._lanes.values():
            while lane.unsent and (link := self._find_link(lane)) is not None:
                link.send(lane.take_unsent(link, self._now_s()), self._frames.make)
        self._links.flush()

    def _find_link(self, lane: _Lane) -> _Link | None:
        """Returns a connection with room for a pull, if there is one."""
        link = self._links.find(lane, lambda link: len(link.requests) < lane.window)
        if link is not None or self._links.is_full(lane):
            return link
        return self._open(lane)

    def _open(self, lane: _Lane) -> _Link | None:
        """Borrows a connection to the wanted broker, or to another one with its name if the wanted one is away.

        Pulls of topics without a route are lost or repeated later; all pulls are if no broker can be reached.
        """
        now_s = self._now_s()
        while lane.unsent:
            target = Target.of(lane.unsent[0].queue, lane.recipient.broker_id, may_use_slave=True)
            try:
                places = self._servers.find_places(target, time.monotonic() + self._limit_s)
            except NotLocatedYet as reason:
                self._take_not_located([span for span in lane.unsent if span.queue.topic == target.topic], reason)
                lane.unsent = deque(span for span in lane.unsent if span.queue.topic != target.topic)
                continue
            place = min(places, key=lambda place: self._avoided.get(place.address, 0.0) > now_s)
            until_s = now_s + (self._limit_s / 4 if len(places) > 1 else self._limit_s)  # time for others
            try:
                link = self._links.open(lane, place, until_s, len(self._avoided))
            except ConnectionLost as lost:
                self._leave(place, lane.unsent, lost)
                lane.unsent.clear()
                break
            if not place.is_proxy:  # a proxy sends little at a time
                link.connection.reserve(RECEIVE_BYTES)
            return link
        return None

    def _take_not_located(self, spans: Sequence[Span], reason: NotLocatedYet) -> None:
        """Handles pulls of one topic whose route does not name their broker: they are lost or repeated later."""
        is_gone = self._is_gone(spans[0].queue)
        for span in spans:
            if is_gone:
                self._plan.lose(span, span.queue_plan.until_offset, QUEUE_GONE)
            else:
                self._repeats.add_not_located(span, reason.error)

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _wait(self, until_s: float | None) -> None:
        """Waits for responses, or until a pull must be repeated, and handles what has arrived."""
        now_s = self._now_s()
        self._check_time_limits(now_s)
        limit_s = _LOOK_S if until_s is None else min(_LOOK_S, until_s - now_s)
        if (due_s := self._repeats.next_s) is not None:
            limit_s = min(limit_s, due_s - now_s)
        self._links.receive(limit_s)
        self._send(self._repeats.take_due())

    def _take_in(self, link: _Link, frames: Sequence[tuple[int, int]]) -> None:
        ANSWERED.add(make_key(self._servers.connection, link.place.address))
        first, last = frames[0][0], frames[-1][1]
        # A copy, so that pieces that wait for other responses do not keep the whole receive buffer in memory.
        buffer = memoryview(bytes(link.connection.buffer[first:last]))
        plan, pulls, lane = self._plan, link.requests, link.key
        for frame_start, frame_end in frames:
            start, end = frame_start - first, frame_end - first
            response = parse_response(buffer, start, end)
            span = pulls.pop(response.opaque, None)
            if span is None:
                continue  # nobody waits for it
            lane.note_response(end - start)
            if response.code or response.next_offset <= span.offset:
                self._judge(link, span, response)
                continue
            self._repeats.forget(span)
            if response.suggested_broker != lane.recipient.broker_id:
                self._follow(span.queue, response.suggested_broker)
            body_start = response.body_start
            row_count = response.next_offset - span.offset
            if self._is_filtered:
                row_count = count_records(buffer, body_start, end)
            plan.accept(span, response.next_offset, row_count, end - body_start, (buffer, body_start, end))

    def _judge(self, link: _Link, span: Span, response: ReceivedPull) -> None:
        """Handles a response without messages."""
        queue, plan = span.queue, self._plan
        until_offset = span.queue_plan.until_offset
        verdict = judge(response, span.offset, until_offset, self._is_filtered, link.place.is_slave)
        step = verdict.step
        seen = RemotingCommand(response.code, remark=response.remark)
        if step is Step.REFUSED:
            raise failures.make_refusal(link.place, PULL, seen)
        if step in (Step.AGAIN, Step.ASK_MASTER, Step.RESET):
            if step is Step.RESET:
                self._on_reset(self._group, queue, response.next_offset)
            elif link.place.is_slave:
                self._return_to_master(link, queue)
            self._repeats.add_response(span, link.place, seen)
            return
        self._repeats.forget(span)
        if step is Step.PASSED:
            plan.accept(span, response.next_offset, 0, 0, None)
        elif step is Step.LOST:
            plan.lose(span, verdict.until_offset, verdict.reason)
        else:
            plan.lose(span, until_offset, QUEUE_GONE)

    def _follow(self, queue: MessageQueue, broker_id: int) -> None:
        """Sends the next pulls of a queue to the broker that a response suggests."""
        if broker_id > MASTER_ID:
            self._broker_ids[queue] = broker_id
        elif broker_id == MASTER_ID:
            self._broker_ids.pop(queue, None)

    def _return_to_master(self, link: _Link, queue: MessageQueue) -> None:
        """Sends the next attempt to the master, even if it was away."""
        self._broker_ids.pop(queue, None)
        self._avoided.clear()
        if link.key.recipient.broker_id == MASTER_ID:
            self._links.lose(link, ConnectionLost(Cause.CLOSED, "only the master can respond"))

    # --- failures -----------------------------------------------------------------------------------------------------

    def _leave(self, place: Place, spans: Sequence[Span], lost: ConnectionLost) -> None:
        """Repeats pulls that a broker did not respond to. The next attempt goes to another one if there is one."""
        if lost.cause is not Cause.CLOSED:
            self._avoided[place.address] = self._now_s() + AVOID_S
            self._servers.note_lost(Target.of(spans[0].queue) if spans else Target("", ""), place, lost)
        for span in spans:
            self._repeats.add_lost(span, place, lost)

    def _check_time_limits(self, now_s: float) -> None:
        """Drops connections that do not open, or deliver nothing. Raises the error of a pull without time left."""
        self._links.give_up_unopened(now_s)
        for link in self._links:
            if not link.requests:
                continue
            oldest = next(iter(link.requests.values()))
            is_silent = link.place.is_proxy and now_s - oldest.sent_s >= proxies.SILENCE_S
            if is_silent:
                text = "The %s has not responded to a pull for %g s: it is asked again on another connection"
                _logger.warning(text, link.place, proxies.SILENCE_S)
            if self._repeats.is_overdue(oldest, link.place) or is_silent:
                self._links.lose(link, ConnectionLost(Cause.TIMED_OUT, "no response"))
