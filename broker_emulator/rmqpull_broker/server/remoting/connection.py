"""One connection of the remoting protocol: frames in and out, in any order (rules 4.1, 4.2)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol, cast

from rmqpull_broker.server.addresses import join_address
from rmqpull_broker.server.remoting.begun_work import BegunWork
from rmqpull_broker.server.remoting.calls import RemotingCall, Site
from rmqpull_broker.server.remoting.dispatch import Dispatcher
from rmqpull_broker.server.remoting.left import Departure, find_leaving
from rmqpull_broker.server.remoting.small_reads import SmallReads
from rmqpull_broker.server.remoting.turns import LONG_S, Turns
from rmqpull_broker.server.runtime.slices import Slice
from rmqpull_broker.server.runtime.transport_cycles import cut_cycles, find_selector_transport
from rmqpull_proto.remoting.codes import LanguageCode, ResponseCode
from rmqpull_proto.remoting.command import (
    REQUEST_HEADER_BYTES_MAX,
    RemotingCommand,
    WireError,
    decode_command,
    encode_command,
    refuse_large_header,
)
from rmqpull_proto.remoting.frames import PREFIX_BYTES, FrameTooLarge, read_frame_bytes

UNSENT_BYTES_PAUSE = 1 << 20
"""Bytes of unread responses above which the broker reads no more requests from the client."""
UNSENT_BYTES_MAX = 64 << 20
"""Bytes of unread responses and requests to the client above which the connection is closed."""
READ_BYTES_MAX = 1 << 17
"""The most that is read from a socket at once, and kept until the connection has its turn."""
LOOKED_AT_BYTES = 1 << 10
"""An incomplete frame is looked at again only after this many more bytes, because it may come byte by byte."""
ENDED_IN_A_TURN = 100
"""Requests that end in one turn of the event loop when their connection is closed."""
ASKED_MAX = 1_000
"""The most requests to the client that it has not answered yet."""

_logger = logging.getLogger(__name__)


class Connections(Protocol):
    """All connections of a broker."""

    dispatcher: Dispatcher | None
    turns: Turns

    def add(self, connection: RemotingConnection) -> str | None:
        """Registers a connection, and returns its channel id; None if its address has too many."""

    def remove(self, connection: RemotingConnection) -> None:
        """Forgets a closed connection."""

    def passing_ms(self) -> int:
        """Returns the time by which idle connections are found, in milliseconds."""

    def note_unfinished(self, connection: RemotingConnection, held_bytes: int) -> None:
        """Notes how many bytes of an incomplete frame a connection holds; 0 if there is none."""


class RemotingConnection(asyncio.Protocol):
    """The connection of a client to the port of one logical broker. Belongs to the event loop.

    An invalid frame closes it, as with Apache's server, because the next frame could not be found.
    """

    def __init__(self, connections: Connections, site: Site) -> None:
        self._connections = connections
        self._site = site
        self._received = bytearray()
        self._looks_from_bytes = 0
        self._to_write: list[bytes] = []
        self._to_write_bytes = 0
        self._is_receiving = False
        self._is_paused = False
        self._is_held_up = False
        self._has_unfinished = False
        self._has_turn = False
        self._has_waited = False
        self._sends_no_more = False
        self.is_heavy = False
        self._begun = BegunWork()
        self._waits_for_ends = False
        self._small_reads = SmallReads()
        self._opaques = itertools.count(1)
        self._asked: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._ending: set[asyncio.Task[Any]] = set()
        self._transport: asyncio.Transport | None = None
        self._of_socket: asyncio.BaseTransport | None = None
        self.remote_address = ""
        self.channel_id = ""
        self.active_ms = 0
        """When something was last received or written."""

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection, or closes it if its address has too many."""
        self._transport = cast("asyncio.Transport", transport)
        self._of_socket = find_selector_transport(transport)
        cast("Any", self._of_socket).max_size = READ_BYTES_MAX
        self._transport.set_write_buffer_limits(high=UNSENT_BYTES_PAUSE)
        host, port, *_ = self._transport.get_extra_info("peername") or ("", 0)
        self.remote_address = join_address(host, port)
        self.active_ms = self._connections.passing_ms()
        channel_id = self._connections.add(self)
        if channel_id is None:
            self.abort("there are too many connections, from its address or in all")
        else:
            self.channel_id = channel_id

    def connection_lost(self, error: Exception | None) -> None:
        """Ends everything that waits for the client."""
        self._transport = None
        if self._of_socket is not None:
            cut_cycles(self._of_socket)
            self._of_socket = None
        self._to_write.clear()
        for asked in self._asked.values():
            asked.cancel()
        self._end(list(self._ending))
        self._connections.remove(self)

    def _end(self, tasks: list[asyncio.Task[Any]]) -> None:
        """Ends requests, some in each turn of the event loop: a hundred thousand at once would take seconds."""
        for task in tasks[-ENDED_IN_A_TURN:]:
            task.cancel()
        del tasks[-ENDED_IN_A_TURN:]
        if tasks:
            asyncio.get_running_loop().call_soon(self._end, tasks)

    def data_received(self, data: bytes) -> None:
        """Handles frames that are complete, and writes the responses that are ready at once."""
        self.active_ms = self._connections.passing_ms()
        self._received += data
        held_bytes = len(self._received)
        if held_bytes >= self._looks_from_bytes:
            self._take_turn()
        if not self._has_turn and not self._waits_for_ends:
            self._small_reads.note(len(data), self._read_or_not, has_completed=len(self._received) < held_bytes)

    def _take_turn(self) -> None:
        """Handles what was received, now or in a later turn. Until then, no more is read."""
        if self._has_turn or self._waits_for_ends:
            return
        self._has_turn = True
        self._connections.turns.take(self)
        if self._has_turn:
            self._has_waited = True
            self._read_or_not()

    def handle_received(self, slice_: Slice) -> bool:
        """Handles frames until a slice is over, or the unread responses reach their limit.

        Returns whether there is more.
        """
        self._has_turn = False  # also after an error
        if self._has_waited:
            self._look_for_client()
        has_more = self._handle_slice(slice_)
        self._waits_for_ends = has_more and self._has_begun_enough
        self._has_turn = has_more and not self._waits_for_ends
        self._has_waited = has_more
        if not self._has_turn:
            self._read_or_not()
        return self._has_turn

    def _look_for_client(self) -> None:
        """Finds out whether the client has left: a read would have shown it, but nothing was read meanwhile."""
        leaving = find_leaving(self)
        self._sends_no_more = leaving is not Departure.NOTHING
        if leaving is Departure.ALL:
            self.abort("its client has left before its requests had their turn")

    def _handle_slice(self, slice_: Slice) -> bool:
        if self._is_paused or not self.is_open:
            return False
        self._is_receiving = True
        has_more = False
        try:
            has_more = self._handle_frames(slice_)
        except WireError as error:
            _logger.info("the connection of %s is closed: %s", self.remote_address, error)
            self._received.clear()
            self.close()
        finally:
            self._is_receiving = False
            self._flush()
        held_bytes = 0 if has_more else len(self._received)
        if held_bytes or self._has_unfinished:
            self._has_unfinished = held_bytes > 0
            self._connections.note_unfinished(self, held_bytes)
        return has_more

    def _handle_frames(self, slice_: Slice) -> bool:
        """Handles frames until one is incomplete or invalid. Returns whether it stopped before that."""
        at, end = 0, len(self._received)
        self._looks_from_bytes = 0
        try:
            with memoryview(self._received) as view:
                while (size := read_frame_bytes(view, at, end)) is not None and at + size <= end:
                    frame = bytes(view[at + PREFIX_BYTES : at + size])
                    at += size
                    if self._accept(decode_command(frame, header_bytes_max=REQUEST_HEADER_BYTES_MAX)):
                        slice_.set_aside(self._begun.step_s)
                    is_full = self._to_write_bytes > UNSENT_BYTES_PAUSE
                    if is_full or self._has_begun_enough or slice_.is_over:
                        return True
                if size is not None:
                    self._looks_from_bytes = min(size, end - at + LOOKED_AT_BYTES)
                    if end - at >= 2 * PREFIX_BYTES:
                        refuse_large_header(view, at + PREFIX_BYTES, REQUEST_HEADER_BYTES_MAX)
        finally:
            del self._received[:at]
        return False

    def pause_writing(self) -> None:
        """Stops reading requests from a client that does not read its responses."""
        self._is_paused = True
        self._read_or_not()

    def resume_writing(self) -> None:
        """Handles what was received before, and reads requests again."""
        self._is_paused = False
        self._read_or_not()
        if self._received:
            self._take_turn()

    def hold_up(self, is_held_up: bool) -> None:
        """Stops reading while all unfinished frames hold too much, or resumes."""
        self._is_held_up = is_held_up
        self._read_or_not()

    def fileno(self) -> int:
        """Returns the descriptor of the socket; -1 if the connection is closed."""
        bound = None if self._transport is None else self._transport.get_extra_info("socket")
        return -1 if bound is None else int(bound.fileno())

    def _read_or_not(self) -> None:
        if self._transport is None:
            return
        waits = self._has_turn or self._waits_for_ends
        if waits or self._is_paused or self._is_held_up or self._small_reads.is_resting:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- commands -----------------------------------------------------------------------------------------------------

    def _accept(self, command: RemotingCommand) -> bool:
        """Handles a command. Returns whether it has become a task."""
        dispatcher = self._connections.dispatcher
        if not command.is_response and dispatcher is not None:
            has_task = dispatcher.handle(RemotingCall(command, self, self._site), self._respond)
            if has_task:
                self._begun.begin()
            return has_task
        asked = self._asked.pop(command.opaque, None)
        if asked is not None and not asked.done():
            asked.set_result(command)
        return False

    def _respond(self, reply: RemotingCommand | bytes) -> None:
        """Writes a command together with the others of this turn of the event loop."""
        if not self.is_open:
            return
        if not self._to_write and not self._is_receiving:
            asyncio.get_running_loop().call_soon(self._flush)
        frame = reply if isinstance(reply, bytes) else _encode(reply)
        self._to_write.append(frame)
        self._to_write_bytes += len(frame)

    def _flush(self) -> None:
        if not self._to_write or self._transport is None:
            return
        parts, self._to_write, self._to_write_bytes = self._to_write, [], 0
        self.active_ms = self._connections.passing_ms()
        self._transport.write(parts[0] if len(parts) == 1 else b"".join(parts))
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self.abort(f"the client has not read {self._transport.get_write_buffer_size()} bytes")

    def send(self, command: RemotingCommand) -> None:
        """Sends a one-way request to the client. Does nothing if the connection is closed."""
        command.opaque, command.language = next(self._opaques), LanguageCode.JAVA
        self._respond(command)

    async def ask(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Sends a request to the client, and returns its response. Raises TimeoutError, and ConnectionError."""
        if not self.is_open:
            raise ConnectionError(f"the connection of {self.remote_address} is closed")
        if len(self._asked) >= ASKED_MAX:
            raise ConnectionError(f"the client at {self.remote_address} has not answered {ASKED_MAX} requests")
        self.send(command)
        asked = self._asked[command.opaque] = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(asked, timeout_ms / 1000)
        except asyncio.CancelledError:
            if self._transport is not None:
                raise  # the caller was cancelled, not the connection
            raise ConnectionError(f"the connection of {self.remote_address} was closed") from None
        finally:
            self._asked.pop(command.opaque, None)

    def note_step(self, seconds: float) -> None:
        """Notes how long a step of one of its requests has occupied the event loop."""
        self._begun.note_step(seconds)
        if seconds > LONG_S:
            self._connections.turns.note_long_work(self, seconds)

    def note_end(self) -> None:
        """Notes that the task of one of its requests has ended."""
        self._begun.end()
        self._go_on()

    @property
    def _has_begun_enough(self) -> bool:
        return self._begun.is_enough(waiting=len(self._ending))

    def _go_on(self) -> None:
        """Handles more requests if enough of the previous ones have ended, or wait."""
        if self._waits_for_ends and not self._has_begun_enough:
            self._waits_for_ends = False
            asyncio.get_running_loop().call_soon(self._take_turn)
            self._read_or_not()

    @contextmanager
    def ending_with_connection(self) -> Iterator[None]:
        """Cancels the current task if the connection is closed within the block, or is closed already.

        It is also cancelled if the client is known to send no more: its requests then end instead of waiting.
        """
        task = asyncio.current_task()
        assert task is not None
        if self._transport is None or self._sends_no_more:
            task.cancel()
        self._ending.add(task)
        self._begun.note_wait()
        self._go_on()
        try:
            yield
        finally:
            self._ending.discard(task)

    @property
    def is_open(self) -> bool:
        """Whether the connection can still be written to."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Closes the connection once what is already written is sent."""
        if self._transport is not None:
            self._flush()
            self._transport.close()

    def abort(self, why: str) -> None:
        """Closes the connection at once. What the client has not read is lost."""
        _logger.info("the connection of %s is closed: %s", self.remote_address, why)
        if self._transport is not None:
            self._transport.abort()


def _encode(reply: RemotingCommand) -> bytes:
    """Returns the frame of a command, or that of a refusal if the response is too large for a frame."""
    try:
        return encode_command(reply)
    except FrameTooLarge as error:
        if not reply.is_response:
            raise
        refusal = replace(reply, code=ResponseCode.SYSTEM_ERROR, fields={}, body=b"", remark=str(error))
        return encode_command(refusal)
