"""Waits for messages by pulls that brokers park.

A broker checks the time limits of parked pulls every 5 s only (rules 3.4), so a pull cannot be parked for a short wait.
Instead, it stays parked when a wait is over, and serves the next wait at the same offset. A proxy gets only as many
pulls as it can answer at once. It may still lose answers, so the first one that arrives counts as news.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from rmqpull_client.errors import QueueNotFound, TopicNotFound
from rmqpull_client.flow import Flow
from rmqpull_client.model import MessageFilter, MessageQueue
from rmqpull_client.transports.port import OnReset, log_reset
from rmqpull_client.transports.remoting.network import failures
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.network.connections import ConnectionLost
from rmqpull_client.transports.remoting.network.links import Link, Links
from rmqpull_client.transports.remoting.network.servers import NotLocatedYet, Servers
from rmqpull_client.transports.remoting.reading.pulls import ReceivedPull, make_pull, parse_response
from rmqpull_client.transports.remoting.reading.repeats import PULL
from rmqpull_proto.remoting.codes import ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand

_BOUNDS_CODES = (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY, ResponseCode.PULL_OFFSET_MOVED)
PARKED_MAX = 1_024
"""The queues on which one wait parks pulls. Messages in other queues are noticed when the wait is over."""
PARKED_AT_PROXY_MAX = 64
"""The pulls that one connection to a proxy parks."""
KEPT_MAX = 8
"""The groups and filters whose pulls stay parked between waits."""
GRID_S = 5.0
"""How long after its time limit a broker may answer a parked pull."""
PAUSE_S = 1.0
"""The pause before parking a pull again that a broker refused, or answered at once."""


class ParkedPulls:
    """The parked pulls of a client. Threads may share it: each wait owns the pulls that it takes."""

    def __init__(
        self,
        servers: Servers,
        flow: Flow,
        clock: Callable[[], float] = time.monotonic,
        on_reset: OnReset = log_reset,
    ) -> None:
        self._servers = servers
        self._flow = flow
        self._clock = clock
        self._on_reset = on_reset
        self._kept: dict[tuple[str, MessageFilter], _Parked] = {}

    def wait(
        self, group: str, offsets: Mapping[MessageQueue, int], timeout_ms: int, message_filter: MessageFilter
    ) -> bool:
        """See :meth:`rmqpull_client.transports.port.BrokerClient.wait_for_messages`."""
        key = (group, message_filter)
        parking = self._kept.pop(key, None) or _Parked(
            self._servers, self._flow, group, message_filter, self._clock, self._on_reset
        )
        try:
            has_news = parking.wait(_choose_parked(offsets), timeout_ms)
        except BaseException:
            parking.close()
            raise
        self._keep(key, parking)
        return has_news

    def close(self) -> None:
        """Closes the connections with parked pulls."""
        while self._kept:
            self._kept.popitem()[1].close()

    def _keep(self, key: tuple[str, MessageFilter], parking: _Parked) -> None:
        if key in self._kept or len(self._kept) >= KEPT_MAX:
            parking.close()
        else:
            self._kept[key] = parking


def _choose_parked(offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
    """The queues that get a pull: the same in each wait, because brokers would keep the pulls of others parked."""
    return offsets if len(offsets) <= PARKED_MAX else dict(sorted(offsets.items())[:PARKED_MAX])


class _Pull:
    """The pull of one queue. ``asked`` is the offset of the wait; the filter may have passed over some messages."""

    __slots__ = ("asked", "due_s", "link", "offset", "parked_s", "queue")

    def __init__(self, queue: MessageQueue, offset: int) -> None:
        self.queue = queue
        self.asked = self.offset = offset
        self.link: _Link | None = None  # where it is parked
        self.due_s = self.parked_s = 0.0  # when to park it, and when it was parked last


_Link: TypeAlias = Link[str, _Pull]
"""The pulls on one connection to an address. ``until_s``: the broker must have answered something by then."""


class _Parked:
    """The parked pulls of one group with one filter."""

    def __init__(
        self,
        servers: Servers,
        flow: Flow,
        group: str,
        message_filter: MessageFilter,
        clock: Callable[[], float],
        on_reset: OnReset,
    ) -> None:
        self._servers = servers
        self._on_reset = on_reset
        self._suspend_ms = flow.long_polling_timeout_ms
        self._group = group
        self._filter = message_filter
        self._clock = clock
        self._pulls: dict[MessageQueue, _Pull] = {}
        self._links = Links[str, _Pull](servers, self._take_in, self._on_lost)
        self._has_news = False

    def wait(self, offsets: Mapping[MessageQueue, int], timeout_ms: int) -> bool:
        """Waits for messages at the offsets. Returns whether there may be some."""
        until_s = self._clock() + timeout_ms / 1000
        self._has_news = False
        for queue in [queue for queue, pull in self._pulls.items() if offsets.get(queue) != pull.asked]:
            self._forget(self._pulls.pop(queue))
        for queue, offset in offsets.items():
            if queue not in self._pulls:
                self._pulls[queue] = _Pull(queue, offset)
        while True:
            try:
                self._park()
                self._receive(until_s)
            except (ConnectionLost, NotLocatedYet):
                # If the failure lasts, the next query of the bounds reports it.
                self.close()
                return True
            now_s = self._clock()
            if any(link.requests and link.until_s <= now_s for link in self._links):
                self.close()  # no answer will come
                return True
            if self._has_news or now_s >= until_s:
                return self._has_news

    def close(self) -> None:
        """Closes the connections. Nothing is parked any more."""
        self._links.close()
        self._pulls.clear()

    def _forget(self, pull: _Pull) -> None:
        """Ignores the response of a parked pull. Its offset has a message, so the broker does not keep it parked."""
        if pull.link is not None:
            pull.link.requests = {opaque: other for opaque, other in pull.link.requests.items() if other is not pull}
            pull.link = None

    # --- parking ------------------------------------------------------------------------------------------------------

    def _park(self) -> None:
        now_s = self._clock()
        answered_s = self._suspend_ms / 1000 + GRID_S + self._timeout_s
        for pull in self._pulls.values():
            if pull.link is not None and pull.link.place.is_proxy and pull.parked_s + answered_s <= now_s:
                self._forget(pull)  # its answer was lost
            if pull.link is None and pull.due_s <= now_s:
                link = self._find_link(pull.queue)
                if link is None:
                    pull.due_s = now_s + PAUSE_S
                    continue
                link.send([pull], self._encode)
                link.until_s = now_s + answered_s
                pull.link, pull.parked_s = link, now_s
        self._links.flush()

    def _encode(self, pull: _Pull, opaque: int) -> bytes:
        command = make_pull(self._group, pull.queue, pull.offset, 1, self._filter, self._suspend_ms)
        return self._servers.encode(command, opaque, pull.queue.broker_name)

    def _on_lost(self, link: _Link, pulls: Iterable[_Pull], lost: ConnectionLost) -> None:
        """Parks the pulls of a lost connection again, if other connections to proxies are left.

        Several proxies may share an address, and only one of them may be gone. Otherwise raises ``lost``.
        """
        if not link.place.is_proxy or not any(self._links):
            raise lost
        for pull in pulls:
            pull.link, pull.due_s = None, self._clock() + PAUSE_S
            self._servers.note_lost(Target.of(pull.queue), link.place, lost)

    @property
    def _timeout_s(self) -> float:
        return self._servers.connection.request_timeout_ms / 1000

    def _find_link(self, queue: MessageQueue) -> _Link | None:
        """Returns a connection for a pull, or None if a proxy has no room for it."""
        target = Target.of(queue, may_use_slave=True)
        place = self._servers.find_places(target, time.monotonic() + self._timeout_s)[0]
        link = self._links.find(place.address, lambda link: len(link.requests) < PARKED_AT_PROXY_MAX)
        if link is not None or self._links.is_full(place.address):
            return link
        return self._links.open(place.address, place)

    # --- responses ----------------------------------------------------------------------------------------------------

    def _receive(self, until_s: float) -> None:
        dues_s = [pull.due_s for pull in self._pulls.values() if pull.link is None]
        next_s = min([until_s, *dues_s, *(link.until_s for link in self._links if link.requests)])
        self._links.receive(next_s - self._clock())

    def _take_in(self, link: _Link, frames: Iterable[tuple[int, int]]) -> None:
        for start, end in frames:
            response = parse_response(link.connection.buffer, start, end)
            pull = link.requests.pop(response.opaque, None)
            if pull is not None:
                pull.link = None
                self._has_news = self._judge(link, pull, response) or self._has_news

    def _judge(self, link: _Link, pull: _Pull, response: ReceivedPull) -> bool:
        """Whether a response shows that the bounds may have changed. If not, the pull is parked again."""
        code = response.code
        if code == ResponseCode.PULL_NOT_FOUND:  # its time was up, or the broker does not park pulls
            pull.due_s = pull.parked_s + PAUSE_S
            return False
        if code == ResponseCode.PULL_RETRY_IMMEDIATELY and response.next_offset > pull.offset:
            pull.offset = response.next_offset  # the filter dropped the new messages
            return False
        if code == ResponseCode.PULL_OFFSET_MOVED and response.remark == "OFFSET_RESET":
            self._on_reset(self._group, pull.queue, response.next_offset)
            return False
        seen = RemotingCommand(code, remark=response.remark)
        if failures.is_busy(seen) or failures.is_left_to_master(link.place, seen):
            pull.due_s = self._clock() + PAUSE_S
            return False
        error = failures.make_refusal(link.place, PULL, seen)
        if code in _BOUNDS_CODES or isinstance(error, (TopicNotFound, QueueNotFound)):
            return True
        raise error
