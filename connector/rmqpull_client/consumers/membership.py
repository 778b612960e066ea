"""The connections by which brokers know a member of a group: heartbeats go out on them, and notices come in.

A broker counts a client as a member of its group while its connection is open and has had a heartbeat within the last
two minutes (rules 3.6). It tells members on these connections that others have joined or left. So each broker has one
connection that stays open, besides those of pulls.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from rmqpull_client.errors import OptionError
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Place
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.links import Link, Links
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, decode_command, encode_command

ANSWERED_WITHIN_S = 3.0
"""How long a broker may take to answer a heartbeat: Java's ``mqClientApiTimeout``."""
_LEFT_WITHIN_S = 1.0
EXPIRES_S = 120.0
"""After this time without a heartbeat a broker forgets a member."""
_logger = logging.getLogger(__name__)
_Link: TypeAlias = Link[str, float]
"""The connection to a broker. Its requests are heartbeats, each with the time when it was sent."""


class Heartbeats:
    """The connections of one member. One thread uses them.

    Args:
        channel: Who lends the connections.
        make_body: Returns the body of a heartbeat.
        on_request: Handles a request of a broker, and returns the response, or None for a request without one.
        on_lost: Called with the name of a broker when its connection was lost.
    """

    def __init__(
        self,
        channel: RemotingChannel,
        make_body: Callable[[], bytes],
        on_request: Callable[[RemotingCommand], RemotingCommand | None],
        on_lost: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._channel = channel
        self._make_body = make_body
        self._on_request = on_request
        self._on_lost = on_lost
        self._clock = clock
        self._links = Links[str, float](channel, self._take_in, self._note_lost)
        self._by_address: dict[str, _Link] = {}
        self._accepted_s: dict[str, float] = {}

    @property
    def accepted_s(self) -> float | None:
        """When the latest heartbeat was sent that a broker has accepted; None before the first."""
        return max(self._accepted_s.values(), default=None)

    def send(self, places: Iterable[Place], *, only_lost: bool = False) -> None:
        """Sends a heartbeat to each broker, or to those without a connection, and closes the connections to others.

        Waits for the answers, for at most ANSWERED_WITHIN_S.
        """
        wanted = {place.address: place for place in places}
        for address in self._by_address.keys() - wanted.keys():
            link = self._by_address.pop(address)
            link.requests.clear()
            link.is_leaving = True
        self._links.end_leaving()
        now_s, body = self._clock(), self._make_body()
        for address, place in wanted.items():
            if only_lost and address in self._by_address:
                continue
            try:
                link = self._by_address.get(address) or self._links.open(address, place)
            except (ConnectionLost, OptionError) as error:
                _logger.warning("%s gets no heartbeat: %s", place, error)
                continue
            self._by_address[address] = link
            self._add(link, RemotingCommand(RequestCode.HEART_BEAT, {}, body), now_s)
        self._links.flush()
        self._wait_for_answers(ANSWERED_WITHIN_S)

    def _add(self, link: _Link, command: RemotingCommand, now_s: float) -> None:
        link.send([now_s], lambda _, opaque: self._channel.encode(command, opaque, link.place.broker_name))

    def leave(self, fields: dict[str, str]) -> None:
        """Tells the brokers that the member leaves, and closes all connections, which brokers notice too."""
        for link in self._by_address.values():
            if link.connection.is_open:
                self._add(link, RemotingCommand(RequestCode.UNREGISTER_CLIENT, fields), self._clock())
        self._links.flush()
        self._wait_for_answers(_LEFT_WITHIN_S)
        for link in self._links:
            link.connection.close()
        self._links.close()
        self._by_address.clear()

    def _wait_for_answers(self, timeout_s: float) -> None:
        until_s = self._clock() + timeout_s
        while any(link.requests for link in self._links) and self._clock() < until_s:
            self.receive(until_s - self._clock())

    def receive(self, timeout_s: float) -> None:
        """Sends and receives for at most ``timeout_s``."""
        self._links.receive(timeout_s)
        overdue_s = self._clock() - ANSWERED_WITHIN_S
        for link in self._links:
            if any(sent_s < overdue_s for sent_s in link.requests.values()):
                self._links.lose(link, ConnectionLost(Cause.TIMED_OUT, f"no answer within {ANSWERED_WITHIN_S:g} s"))

    def _take_in(self, link: _Link, frames: Sequence[tuple[int, int]]) -> None:
        for start, end in frames:
            command = decode_command(bytes(link.connection.buffer[start:end]))
            if not command.is_response:
                self._answer(link, command)
                continue
            sent_s = link.requests.pop(command.opaque, None)
            if sent_s is None:
                continue
            if command.code == ResponseCode.SUCCESS:
                self._accepted_s[link.place.address] = sent_s
            else:
                _logger.warning("%s refused a heartbeat with code %d: %s", link.place, command.code, command.remark)

    def _answer(self, link: _Link, request: RemotingCommand) -> None:
        response = self._on_request(request)
        if response is not None and not request.is_oneway:
            link.connection.send(encode_command(response))

    def _note_lost(self, link: _Link, sent: list[float], lost: ConnectionLost) -> None:
        if self._by_address.get(link.key) is link:
            del self._by_address[link.key]
        _logger.info("The connection for heartbeats to %s was lost: %s", link.place, lost)
        self._on_lost(link.place.broker_name)
