"""The connections of one operation, with the requests in flight on them: one loop sends, waits and receives.

Whoever owns the links decides what to send where, what a response means, and what happens to the requests of a
connection that was lost. Nothing runs in the background: bytes move only in :meth:`Links.flush` and
:meth:`Links.receive`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from rmqpull_client.transports.remoting.network import proxies
from rmqpull_client.transports.remoting.network.cluster import Place
from rmqpull_client.transports.remoting.network.connections import BrokerConnection, Cause, ConnectionLost, wait_for
from rmqpull_client.transports.remoting.network.servers import Servers
from rmqpull_proto.remoting.frames import WireError

_Key = TypeVar("_Key")
_Request = TypeVar("_Request")


@dataclass(eq=False)
class Link(Generic[_Key, _Request]):
    """A borrowed connection to a server.

    ``key`` says what it is for. ``until_s`` is when it must be open, unless its owner sets another limit. ``requests``
    are in flight, by opaque, the oldest first. A link that ``is_leaving`` takes no more of them: the server is shutting
    down, or a response is overdue.
    """

    key: _Key
    place: Place
    connection: BrokerConnection
    until_s: float
    requests: dict[int, _Request] = field(default_factory=dict)
    is_leaving: bool = False

    def send(self, requests: Iterable[_Request], encode: Callable[[_Request, int], bytes]) -> None:
        """Numbers requests and adds their frames to those to be sent. ``encode`` takes a request and its opaque."""
        frames = []
        for request in requests:
            opaque = self.connection.next_opaque()
            frames.append(encode(request, opaque))
            self.requests[opaque] = request
        self.connection.send(*frames)


class Links(Generic[_Key, _Request]):
    """The links of one operation. One thread uses them.

    Args:
        servers: Who lends the connections.
        take_in: Handles the frames that a link has received; their bounds refer to the buffer of its connection. It
            removes the requests that have their response. If it raises WireError, the connection is lost.
        on_lost: Handles the requests that were in flight on a connection that was lost, and why it was lost.
    """

    def __init__(
        self,
        servers: Servers,
        take_in: Callable[[Link[_Key, _Request], Sequence[tuple[int, int]]], None],
        on_lost: Callable[[Link[_Key, _Request], list[_Request], ConnectionLost], None],
    ) -> None:
        self._servers = servers
        self._take_in = take_in
        self._on_lost = on_lost
        self._by_key: dict[_Key, list[Link[_Key, _Request]]] = {}

    def __iter__(self) -> Iterator[Link[_Key, _Request]]:
        """Iterates over a copy: links may end in the meantime."""
        return iter([link for links in self._by_key.values() for link in links])

    # --- opening and closing ------------------------------------------------------------------------------------------

    def find(self, key: _Key, has_room: Callable[[Link[_Key, _Request]], bool]) -> Link[_Key, _Request] | None:
        """Returns a link for another request. Ends idle ones that the server has closed.

        ``has_room`` says whether a proxy can take another request on a link. Any other server takes any number.
        """
        for link in list(self._by_key.get(key, ())):
            if link.is_leaving or (link.place.is_proxy and not has_room(link)):
                continue
            if link.requests or link.connection.has_unsent or link.connection.is_alive():
                return link
            self._end(link)
        return None

    def is_full(self, key: _Key) -> bool:
        """Whether a key has as many links as it may have at a proxy."""
        return sum(not link.is_leaving for link in self._by_key.get(key, ())) >= proxies.CONNECTIONS_MAX

    def open(self, key: _Key, place: Place, until_s: float = math.inf, attempt: int = 0) -> Link[_Key, _Request]:
        """Borrows a connection, which is perhaps not open yet. Raises ConnectionLost and OptionError.

        ``until_s`` is when it must be open. ``attempt`` counts how often the caller could not connect.
        """
        link = Link[_Key, _Request](key, place, self._servers.borrow(place, attempt), until_s)
        self._by_key.setdefault(key, []).append(link)
        return link

    def lose(self, link: Link[_Key, _Request], lost: ConnectionLost) -> None:
        """Ends a link, and hands over its requests."""
        requests = list(link.requests.values())
        link.requests.clear()
        self._end(link)
        self._on_lost(link, requests, lost)

    def give_up_unopened(self, now_s: float) -> None:
        """Loses the links that carry requests and are not open in time."""
        for link in self:
            if link.requests and not link.connection.is_open and now_s >= link.until_s:
                self.lose(link, link.connection.give_up())

    def end_leaving(self) -> None:
        """Ends the links that take no more requests and have none in flight."""
        for link in self:
            if link.is_leaving and not link.requests:
                self._end(link)

    def close(self) -> None:
        """Gives back idle connections, and closes those with requests in flight."""
        for link in self:
            if link.requests or link.is_leaving:
                link.connection.close()
            else:
                self._servers.give_back(link.connection)
        self._by_key.clear()

    def _end(self, link: Link[_Key, _Request]) -> None:
        link.connection.close()
        links = self._by_key.get(link.key, [])
        if link in links:
            links.remove(link)

    # --- the loop -----------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Connects and sends as far as possible without waiting."""
        for link in self:
            if link.connection.has_unsent:
                try:
                    link.connection.flush()
                except ConnectionLost as lost:
                    self.lose(link, lost)

    def receive(self, timeout_s: float) -> None:
        """Waits until connections can continue, at most ``timeout_s``, and handles what has arrived on them."""
        links = {link.connection: link for link in self}
        for connection in wait_for(links, timeout_s):
            if not connection.is_closed:
                self._receive(links[connection])

    def _receive(self, link: Link[_Key, _Request]) -> None:
        connection = link.connection
        try:
            if frames := connection.receive():
                self._take_in(link, frames)
            if connection.has_unsent:
                connection.flush()
        except ConnectionLost as lost:
            self.lose(link, lost)
        except WireError as error:
            self.lose(link, ConnectionLost(Cause.BAD_FRAME, str(error)))
