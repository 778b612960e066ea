"""One connection of the remoting protocol: frames in and out, in any order (rules 4.1, 4.2)."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol, cast

from rmqpull_broker.server.remoting.dispatch import Dispatcher
from rmqpull_broker.server.runtime.remoting_calls import RemotingCall, Site
from rmqpull_proto.remoting.codes import LanguageCode
from rmqpull_proto.remoting.command import RemotingCommand, WireError, decode_command, encode_command
from rmqpull_proto.remoting.frames import split_frames

_logger = logging.getLogger(__name__)


class Connections(Protocol):
    """All connections of a broker."""

    dispatcher: Dispatcher

    def add(self, connection: RemotingConnection) -> str:
        """Keeps a connection, and returns its channel id."""

    def remove(self, connection: RemotingConnection) -> None:
        """Forgets a closed connection."""


class RemotingConnection(asyncio.Protocol):
    """The connection of a client to the port of one logical broker. Belongs to the event loop."""

    def __init__(self, connections: Connections, site: Site) -> None:
        self._connections = connections
        self._site = site
        self._buffer = bytearray()
        self._opaques = itertools.count(1)
        self._asked: dict[int, asyncio.Future[RemotingCommand]] = {}
        self._ending: set[asyncio.Task[Any]] = set()
        self._transport: asyncio.Transport | None = None
        self.remote_address = ""
        self.channel_id = ""

    # --- asyncio ------------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Registers the connection."""
        self._transport = cast("asyncio.Transport", transport)
        host, port, *_ = self._transport.get_extra_info("peername")
        self.remote_address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.channel_id = self._connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        """Ends what waits for the client."""
        self._transport = None
        for asked in self._asked.values():
            asked.cancel()
        for task in self._ending:
            task.cancel()
        self._connections.remove(self)

    def data_received(self, data: bytes) -> None:
        """Handles all frames that are complete."""
        self._buffer += data
        try:
            with memoryview(self._buffer) as view:
                bounds = split_frames(view, 0, len(view))
                frames = [bytes(view[start:end]) for start, end in bounds]
            if bounds:
                del self._buffer[: bounds[-1][1]]
            for frame in frames:
                self._accept(decode_command(frame))
        except WireError as error:
            _logger.info("the connection of %s is closed: %s", self.remote_address, error)
            self.close()

    # --- commands -----------------------------------------------------------------------------------------------------

    def _accept(self, command: RemotingCommand) -> None:
        if command.is_response:
            asked = self._asked.pop(command.opaque, None)
            if asked is not None and not asked.done():
                asked.set_result(command)
            return
        self._connections.dispatcher.handle(RemotingCall(command, self, self._site), self._respond)

    def _respond(self, reply: RemotingCommand | bytes) -> None:
        if self._transport is not None:
            self._transport.write(reply if isinstance(reply, bytes) else encode_command(reply))

    def send(self, command: RemotingCommand) -> None:
        """Sends a one-way request to the client. Does nothing if the connection is closed."""
        command.opaque, command.language = next(self._opaques), LanguageCode.JAVA
        self._respond(command)

    async def ask(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Sends a request to the client, and returns its response. Raises TimeoutError, and ConnectionError."""
        if self._transport is None:
            raise ConnectionError(f"the connection of {self.remote_address} is closed")
        self.send(command)
        asked = self._asked[command.opaque] = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(asked, timeout_ms / 1000)
        except asyncio.CancelledError:
            raise ConnectionError(f"the connection of {self.remote_address} was closed") from None
        finally:
            self._asked.pop(command.opaque, None)

    @contextmanager
    def ending_with_connection(self) -> Iterator[None]:
        """Cancels the current task if the connection is closed within the block, or is closed already."""
        task = asyncio.current_task()
        assert task is not None
        if self._transport is None:
            task.cancel()
        self._ending.add(task)
        try:
            yield
        finally:
            self._ending.discard(task)

    @property
    def is_open(self) -> bool:
        """Whether the connection can still be written to."""
        return self._transport is not None and not self._transport.is_closing()

    def close(self) -> None:
        """Closes the connection after what is already written."""
        if self._transport is not None:
            self._transport.close()
