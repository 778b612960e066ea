"""Connections: several frames at once, one-way requests, and bytes that are not frames."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import socket
from collections.abc import Iterator
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.server.remoting.begun_work import BEGUN_S_MAX
from rmqpull_broker.server.remoting.calls import RemotingCall
from rmqpull_broker.server.remoting.connection import (
    ENDED_IN_A_TURN,
    UNSENT_BYTES_MAX,
    UNSENT_BYTES_PAUSE,
    RemotingConnection,
)
from rmqpull_broker.server.remoting.dispatch import Dispatcher, Respond
from rmqpull_broker.server.runtime.slices import SLICE_S
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import (
    REQUEST_HEADER_BYTES_MAX,
    RemotingCommand,
    Serialization,
    decode_command,
)
from tests.harness.bad_frames import BAD_FRAMES, ONLY_BAD_HERE
from tests.harness.remoting_transport import SITE, NoConnections, Recorder, Transport, request

ONEWAY = 2


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    with running_broker(remoting=True) as broker:
        host, port = broker.remoting_addresses[0].split(":")
        with socket.create_connection((host, int(port)), 10) as opened:
            yield opened


def receive(connection: socket.socket) -> RemotingCommand:
    with connection.makefile("rb", buffering=0) as file:
        read = file.read
        length = int.from_bytes(read(4) or b"", "big")
        frame = b""
        while len(frame) < length:
            frame += read(length - len(frame)) or b""
    return decode_command(frame)


@pytest.mark.parametrize("serialization", Serialization)
def test_a_response_repeats_the_opaque_and_the_serialization(
    connection: socket.socket, serialization: Serialization
) -> None:
    connection.sendall(request(7, serialization=serialization))
    response = receive(connection)
    assert (response.opaque, response.serialization, response.is_response) == (7, serialization, True)


def test_frames_in_one_write_are_all_answered_but_those_that_are_one_way(connection: socket.socket) -> None:
    connection.sendall(request(1) + request(2, ONEWAY) + request(3))
    assert [receive(connection).opaque, receive(connection).opaque] == [1, 3]


def test_a_frame_that_comes_byte_by_byte(connection: socket.socket) -> None:
    for byte in request(9):
        connection.sendall(bytes([byte]))
    assert receive(connection).opaque == 9


def test_other_protocols_are_disconnected(connection: socket.socket) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n")
    assert connection.recv(100) == b""


# --- bad input --------------------------------------------------------------------------------------------------------


HELLO_OF_TLS = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
BAD = {**BAD_FRAMES, **ONLY_BAD_HERE, "TLS": HELLO_OF_TLS}


def assert_closed_after(connection: socket.socket, data: bytes) -> None:
    connection.sendall(data)
    with contextlib.suppress(ConnectionResetError):  # it is closed then, too
        assert connection.recv(100) == b""


@pytest.mark.parametrize("data", BAD_FRAMES.values(), ids=BAD_FRAMES)
def test_what_is_no_frame_closes_the_connection(connection: socket.socket, data: bytes) -> None:
    assert_closed_after(connection, data)


@pytest.mark.proves("The proxy protocol, and headers with numbers in quotation marks or with fractions")
@pytest.mark.parametrize("data", ONLY_BAD_HERE.values(), ids=ONLY_BAD_HERE)
def test_what_only_apaches_servers_read_closes_the_connection(connection: socket.socket, data: bytes) -> None:
    assert_closed_after(connection, data)


@pytest.mark.proves("A client with TLS, without configuration")
def test_without_a_certificate_a_client_with_tls_is_disconnected(connection: socket.socket) -> None:
    assert_closed_after(connection, HELLO_OF_TLS)


def test_frames_before_a_bad_one_are_answered(connection: socket.socket) -> None:
    connection.sendall(request(1) + b"GET / HTTP/1.1\r\n\r\n")
    assert receive(connection).opaque == 1


# --- clients that do not read -----------------------------------------------------------------------------------------


@pytest.fixture
def unread() -> tuple[RemotingConnection, Transport]:
    connection = RemotingConnection(NoConnections(), SITE)
    transport = Transport()
    connection.connection_made(transport)
    return connection, transport


def test_no_more_requests_are_read_from_a_client_that_does_not_read_responses(
    unread: tuple[RemotingConnection, Transport],
) -> None:
    connection, transport = unread
    assert transport.high == UNSENT_BYTES_PAUSE
    connection.pause_writing()
    assert transport.is_paused
    connection.resume_writing()
    assert not transport.is_paused


def test_a_client_is_read_again_when_it_reads_and_unfinished_frames_leave_room(
    unread: tuple[RemotingConnection, Transport],
) -> None:
    connection, transport = unread
    connection.hold_up(True)
    connection.pause_writing()
    connection.resume_writing()
    assert transport.is_paused
    connection.hold_up(False)
    assert not transport.is_paused


def test_only_what_is_no_whole_frame_counts_as_unfinished() -> None:
    connections = NoConnections()
    connection = RemotingConnection(connections, SITE)
    connection.connection_made(Transport())
    frame, held = request(1), []

    async def receive_pieces() -> None:
        for data in (frame + frame[:3], frame[3:9], frame[9:]):
            connection.data_received(data)
            held.append(connections.held_bytes)

    asyncio.run(receive_pieces())
    assert held == [3, 9, 0]


def test_a_frame_with_a_large_header_is_refused_before_it_is_complete() -> None:
    connection, transport = RemotingConnection(NoConnections(), SITE), Transport()
    connection.connection_made(transport)

    async def receive_start() -> None:
        connection.data_received((1 << 23).to_bytes(4, "big") + (REQUEST_HEADER_BYTES_MAX + 1).to_bytes(4, "big"))

    asyncio.run(receive_start())
    assert not connection.is_open


class Repeating(Dispatcher):
    """Answers each request at once, with a large body."""

    def __init__(self) -> None:
        self.handled = 0

    def handle(self, call: RemotingCall, respond: Respond) -> bool:
        self.handled += 1
        respond(call.respond(body=bytes(UNSENT_BYTES_PAUSE)))
        return False


def test_requests_of_one_read_wait_while_their_responses_are_not_read(
    unread: tuple[RemotingConnection, Transport],
) -> None:
    connection, transport = unread
    dispatcher = connection._connections.dispatcher = Repeating()

    async def run() -> list[int]:
        handled = []
        connection.data_received(b"".join(request(number) for number in range(1, 5)))
        handled.append(dispatcher.handled)
        connection.pause_writing()  # the transport calls it within the first write
        await asyncio.sleep(0)
        handled.append(dispatcher.handled)
        for _ in range(4):
            connection.resume_writing()
            await asyncio.sleep(0)
        handled.append(dispatcher.handled)
        return handled

    assert asyncio.run(run()) == [1, 1, 4]
    assert len(transport.unsent) > 4 * UNSENT_BYTES_PAUSE


TICK_S = 2**-12  # without a rest in binary numbers


def count_turns(frames: int) -> list[int]:
    """Sends frames in one read, on a clock that moves whenever somebody looks. Returns how many each turn handles."""
    recorder, transport, handled = Recorder(), Transport(), [0]
    ticks = itertools.count()
    connections = NoConnections(cast("Dispatcher", recorder), clock=lambda: next(ticks) * TICK_S)
    connection = RemotingConnection(connections, SITE)
    connection.connection_made(transport)

    async def run() -> None:
        connection.data_received(b"".join(map(request, range(frames))))
        handled.append(len(recorder.opaques))
        connection.data_received(request(frames))  # the transport had read it before it was told to pause
        while handled[-1] <= frames:
            assert transport.is_paused
            await asyncio.sleep(0)
            handled.append(len(recorder.opaques))

    asyncio.run(run())
    assert recorder.opaques == [*range(frames + 1)]
    assert not transport.is_paused
    return [later - earlier for earlier, later in pairwise(handled)]


def test_many_frames_of_one_read_are_handled_slice_by_slice() -> None:
    of_a_slice = math.ceil(SLICE_S / TICK_S) - 1  # and a look at the clock before the first
    once, twice = count_turns(10 * of_a_slice - 2), count_turns(20 * of_a_slice - 2)
    first = of_a_slice - 1  # one more look
    assert (once, twice) == ([first, *[of_a_slice] * 9], [first, *[of_a_slice] * 19])


class Starting(Recorder):
    """A dispatcher that makes a task of each request."""

    def handle(self, call: RemotingCall, respond: Respond) -> bool:
        super().handle(call, respond)
        return True


@pytest.mark.parametrize(("step_s", "tasks"), [(SLICE_S / 3.9, 4), (SLICE_S * 1.5, 1)])
def test_a_turn_begins_as_many_tasks_as_a_slice_has_time_for(step_s: float, tasks: int) -> None:
    recorder = Starting()
    connection = RemotingConnection(NoConnections(cast("Dispatcher", recorder), clock=lambda: 0.0), SITE)
    connection.connection_made(Transport())
    connection.note_step(step_s)

    async def run() -> int:
        connection.data_received(b"".join(map(request, range(10))))
        return len(recorder.opaques)

    assert asyncio.run(run()) == tasks


class Working(Dispatcher):
    """A dispatcher whose requests run until a test ends them, or wait for a message."""

    def __init__(self) -> None:
        self.begun: list[asyncio.Event] = []
        self.tasks: list[asyncio.Task[None]] = []

    def handle(self, call: RemotingCall, respond: Respond) -> bool:
        self.begun.append(asyncio.Event())
        task = asyncio.create_task(self._work(call, self.begun[-1]))
        task.add_done_callback(lambda _: call.peer.note_end())
        self.tasks.append(task)
        return True

    async def _work(self, call: RemotingCall, ends: asyncio.Event) -> None:
        with call.peer.ending_with_connection() if call.command.is_oneway else contextlib.nullcontext():
            await asyncio.wait_for(ends.wait(), 60)


@pytest.mark.parametrize(
    ("request_s", "waits_for_messages", "begun"),
    [(BEGUN_S_MAX / 2, False, 2), (BEGUN_S_MAX / 5, False, 5), (BEGUN_S_MAX, False, 1), (BEGUN_S_MAX / 2, True, 10)],
)
def test_only_some_requests_of_a_connection_are_in_work_at_a_time(
    request_s: float, waits_for_messages: bool, begun: int
) -> None:
    """The others are handled when those end, unless those only wait for messages."""
    dispatcher = Working()
    connection, transport = RemotingConnection(NoConnections(dispatcher, clock=lambda: 0.0), SITE), Transport()
    connection.connection_made(transport)
    connection.note_step(request_s)
    flag = ONEWAY if waits_for_messages else 0

    async def settle() -> int:
        for _ in range(100):
            await asyncio.sleep(0)
        return len(dispatcher.begun)

    async def run() -> tuple[int, bool, int, bool]:
        connection.data_received(b"".join(request(number, flag) for number in range(10)))
        at_first, paused = await settle(), transport.is_paused
        for number in range(10):
            dispatcher.begun[number].set()
            await settle()
        await asyncio.wait(dispatcher.tasks)
        return at_first, paused, await settle(), transport.is_paused

    assert asyncio.run(run()) == (begun, begun < 10, 10, False)


def test_a_client_that_reads_nothing_is_disconnected(unread: tuple[RemotingConnection, Transport]) -> None:
    connection, transport = unread

    async def send(count: int) -> None:
        for _ in range(count):
            connection.send(RemotingCommand(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, body=bytes(1 << 20)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    asyncio.run(send(UNSENT_BYTES_MAX >> 21))
    open_before = connection.is_open
    asyncio.run(send(UNSENT_BYTES_MAX >> 20))
    assert (open_before, connection.is_open) == (True, False)
    assert len(transport.unsent) <= UNSENT_BYTES_MAX + (2 << 20)


def test_the_requests_of_a_closed_connection_end_in_several_turns_of_the_event_loop(
    unread: tuple[RemotingConnection, Transport],
) -> None:
    connection, _ = unread

    async def wait() -> None:
        with connection.ending_with_connection():
            await asyncio.wait_for(asyncio.Event().wait(), 60)

    async def close() -> list[int]:
        waiting = [asyncio.create_task(wait()) for _ in range(3 * ENDED_IN_A_TURN)]
        await asyncio.sleep(0)
        connection.connection_lost(None)
        ended = [0]
        while ended[-1] < len(waiting) and len(ended) < 100:
            await asyncio.sleep(0)
            ended.append(sum(task.done() for task in waiting))
        return ended

    ended = asyncio.run(close())
    assert ended[-1] == 3 * ENDED_IN_A_TURN
    assert max(later - earlier for earlier, later in pairwise(ended)) == ENDED_IN_A_TURN


# --- frames in pieces -------------------------------------------------------------------------------------------------


@given(
    st.integers(0, 4),
    st.sampled_from([b"", *BAD.values()]) | st.binary(max_size=40),
    st.lists(st.integers(0, 400), max_size=8),
)
def test_frames_in_any_pieces_are_handled_up_to_the_first_bad_one(count: int, tail: bytes, cuts: list[int]) -> None:
    recorder, transport = Recorder(), Transport()
    connection = RemotingConnection(NoConnections(cast("Dispatcher", recorder), clock=lambda: 0.0), SITE)
    connection.connection_made(transport)
    sent = b"".join(request(opaque) for opaque in range(count)) + tail

    async def receive_pieces() -> None:
        for start, end in pairwise(sorted({0, len(sent), *(min(cut, len(sent)) for cut in cuts)})):
            if connection.is_open:
                connection.data_received(sent[start:end])

    asyncio.run(receive_pieces())
    assert recorder.opaques[:count] == [*range(count)]
    assert connection.is_open or tail
    assert tail not in BAD.values() or not connection.is_open
