"""The loop of an operation's connections: rests of requests, lost connections, time limits, room at proxies."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from typing import TypeAlias

import pytest

from rmqpull_client.connection import Connection, Tls
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Place
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.links import Link, Links
from rmqpull_client.transports.remoting.network.proxies import CONNECTIONS_MAX
from rmqpull_proto.remoting.command import RemotingCommand, WireError, decode_command, encode_command
from tests.harness.scripted_remoting import Act, Reaction, ScriptedServer
from tests.harness.waiting import WAIT_S, wait_until

_Link: TypeAlias = Link[str, bytes]


def echo(request: RemotingCommand) -> Reaction:
    return request.make_response(0, body=bytes(request.body))


def stay_silent(request: RemotingCommand) -> Reaction:
    return Act.STALL


def has_room(link: _Link) -> bool:
    return True


def has_no_room(link: _Link) -> bool:
    return False


def encode(body: bytes, opaque: int) -> bytes:
    return encode_command(RemotingCommand(11, body=body, opaque=opaque))


class Owner:
    """Sends bodies, and notes those that came back and those that were lost."""

    def __init__(self, tls: Tls | None = None) -> None:
        self.channel = RemotingChannel(Connection(name_servers="127.0.0.1:1", tls=tls))
        self.links = Links[str, bytes](self.channel, self.take_in, self.on_lost)
        self.answered: list[bytes] = []
        self.lost: list[tuple[list[bytes], Cause]] = []
        self.on_frame: Callable[[_Link], None] = lambda link: None

    def take_in(self, link: _Link, frames: Iterable[tuple[int, int]]) -> None:
        for start, end in frames:
            self.on_frame(link)
            response = decode_command(bytes(link.connection.buffer[start:end]))
            if link.requests.pop(response.opaque, None) is not None:
                self.answered.append(bytes(response.body))

    def on_lost(self, link: _Link, requests: list[bytes], lost: ConnectionLost) -> None:
        self.lost.append((requests, lost.cause))

    def open(self, server: ScriptedServer, *bodies: bytes, is_proxy: bool = False) -> _Link:
        link = self.links.open(server.address, Place(server.address, is_proxy=is_proxy))
        link.send(bodies, encode)
        return link

    def run(self, is_over: Callable[[], bool]) -> None:
        self.links.flush()
        until_s = time.monotonic() + WAIT_S
        while not is_over():
            assert time.monotonic() < until_s
            self.links.receive(0.1)


@pytest.fixture
def owner() -> Iterator[Owner]:
    owner = Owner()
    yield owner
    owner.links.close()
    owner.channel.close()


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(echo) as server:
        yield server


@pytest.fixture
def silent() -> Iterator[ScriptedServer]:
    with ScriptedServer(stay_silent) as server:
        yield server


def test_requests_on_several_links_are_in_flight_together(owner: Owner, server: ScriptedServer) -> None:
    bodies = [b"%d" % number for number in range(100)]
    for _ in range(3):
        owner.open(server, *bodies)
    owner.run(lambda: len(owner.answered) == 300)
    assert sorted(owner.answered) == sorted(3 * bodies)
    assert server.connections == 3


def test_the_rest_of_a_large_request_is_sent_while_responses_are_awaited(owner: Owner, server: ScriptedServer) -> None:
    bodies = [bytes([number]) * (5 << 20) for number in range(4)]
    link = owner.open(server, *bodies)
    owner.links.flush()
    assert link.connection.has_unsent
    owner.run(lambda: len(owner.answered) == 4)
    assert owner.answered == bodies


def test_a_lost_link_hands_over_its_requests_and_the_others_go_on(
    owner: Owner, server: ScriptedServer, silent: ScriptedServer
) -> None:
    silent.script = lambda request: Act.CLOSE
    owner.open(silent, b"1", b"2")
    kept = owner.open(server, b"3")
    owner.run(lambda: bool(owner.lost and owner.answered))
    assert owner.lost == [([b"1", b"2"], Cause.CLOSED)]
    assert owner.answered == [b"3"]
    assert list(owner.links) == [kept]


def test_a_link_that_cannot_send_is_lost(owner: Owner, server: ScriptedServer) -> None:
    link = owner.open(server)
    link.connection.close()
    link.send([b"1"], encode)
    owner.links.flush()
    assert owner.lost == [([b"1"], Cause.CLOSED)]
    assert list(owner.links) == []


def test_a_frame_that_cannot_be_read_loses_its_link(owner: Owner, server: ScriptedServer) -> None:
    def refuse(link: _Link) -> None:
        raise WireError("no header")

    owner.on_frame = refuse
    link = owner.open(server, b"1")
    owner.run(lambda: bool(owner.lost))
    assert owner.lost == [([b"1"], Cause.BAD_FRAME)]
    assert link.connection.is_closed
    assert list(owner.links) == []


def test_a_response_may_end_links_that_have_responses_too(owner: Owner, server: ScriptedServer) -> None:
    """Whoever was told that a request is lost gets no response to it."""

    def lose_all(_: _Link) -> None:
        for each in owner.links:
            owner.links.lose(each, ConnectionLost(Cause.CLOSED, "not wanted"))

    links = [owner.open(server, b"0") for _ in range(2)]
    owner.run(lambda: len(owner.answered) == 2)
    owner.on_frame = lose_all
    for link in links:
        link.send([b"1", b"2"], encode)
    owner.links.flush()
    wait_until(lambda: len(server.requests) == 6, "both have responses")
    owner.links.receive(WAIT_S)
    assert owner.lost == 2 * [([b"1", b"2"], Cause.CLOSED)]
    assert owner.answered == 2 * [b"0"]


def test_a_link_that_does_not_open_in_time_is_given_up() -> None:
    """The server takes the connection, and does not answer the TLS handshake."""
    owner = Owner(Tls())
    with socket.create_server(("127.0.0.1", 0)) as listener, closing(owner.links), closing(owner.channel):
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        links = [owner.links.open(address, Place(address), until_s) for until_s in (10.0, 20.0)]
        idle = owner.links.open(address, Place(address), 10.0)
        for link in links:
            link.send([b"%d" % link.until_s], encode)
        owner.run(lambda: all(link.connection.events == select.POLLIN for link in links))
        owner.links.give_up_unopened(9.0)
        assert owner.lost == []
        owner.links.give_up_unopened(10.0)
        assert owner.lost == [([b"10"], Cause.CLOSED_IN_HANDSHAKE)]
        assert list(owner.links) == [links[1], idle]


def test_a_link_is_found_while_it_has_room(owner: Owner, silent: ScriptedServer) -> None:
    first = owner.open(silent, b"1", is_proxy=True)
    second = owner.open(silent, b"2", is_proxy=True)
    find = owner.links.find
    assert find(silent.address, has_room) is first
    assert find(silent.address, lambda link: link is not first) is second
    assert find(silent.address, has_no_room) is None
    assert find("another", has_room) is None
    first.is_leaving = True
    assert find(silent.address, has_room) is second


def test_only_a_proxy_has_no_room(owner: Owner, silent: ScriptedServer) -> None:
    link = owner.open(silent, b"1")
    assert owner.links.find(silent.address, has_no_room) is link


def test_an_idle_link_that_the_server_has_closed_is_not_found(owner: Owner, server: ScriptedServer) -> None:
    link = owner.open(server, b"1")
    owner.run(lambda: bool(owner.answered))
    assert owner.links.find(server.address, has_room) is link
    server.close_connections()
    wait_until(lambda: owner.links.find(server.address, has_room) is None, "noticed")
    assert list(owner.links) == []
    assert owner.lost == []


def test_the_links_of_a_key_are_limited(owner: Owner, silent: ScriptedServer) -> None:
    links = [owner.open(silent, b"1") for _ in range(CONNECTIONS_MAX - 1)]
    assert not owner.links.is_full(silent.address)
    links.append(owner.open(silent, b"1"))
    assert owner.links.is_full(silent.address)
    assert not owner.links.is_full("another")
    links[0].is_leaving = True
    assert not owner.links.is_full(silent.address), "it makes room for another one"


def test_a_leaving_link_ends_after_its_last_response(owner: Owner, server: ScriptedServer) -> None:
    link = owner.open(server, b"1")
    link.is_leaving = True
    owner.links.end_leaving()
    assert list(owner.links) == [link]
    owner.run(lambda: bool(owner.answered))
    owner.links.end_leaving()
    assert list(owner.links) == []
    assert link.connection.is_closed


def test_idle_connections_are_given_back_and_others_closed(
    owner: Owner, server: ScriptedServer, silent: ScriptedServer
) -> None:
    idle, busy = owner.open(server, b"1"), owner.open(silent, b"2")
    owner.run(lambda: bool(owner.answered))
    owner.links.close()
    assert list(owner.links) == []
    assert busy.connection.is_closed
    assert owner.channel.borrow(idle.place) is idle.connection
    idle.connection.close()
