"""A transport, connections, a dispatcher and requests, for a connection of the remoting protocol without sockets."""

from __future__ import annotations

import asyncio
import socket
import time

from rmqpull_broker.server.remoting.calls import RemotingCall, Site
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.remoting.dispatch import Dispatcher, Respond
from rmqpull_broker.server.remoting.turns import Turns
from rmqpull_broker.server.runtime.slices import Clock
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, encode_command

SITE = Site("broker-a", "127.0.0.1", 9876, "127.0.0.1")


def request(opaque: int, flag: int = 0, serialization: Serialization = Serialization.BINARY) -> bytes:
    code = RequestCode.GET_BROKER_CLUSTER_INFO
    return encode_command(RemotingCommand(code, opaque=opaque, flag=flag, serialization=serialization))


class Transport(asyncio.Transport):
    """A transport whose client reads nothing. ``bound`` is the broker's end of a real connection, if one is needed."""

    def __init__(self, bound: socket.socket | None = None) -> None:
        super().__init__()
        self._bound = bound
        self.unsent = bytearray()
        self.is_paused = False
        self.is_aborted = False

    def get_extra_info(self, name: str, default: object = None) -> object:
        return {"peername": ("127.0.0.1", 4711), "socket": self._bound}.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.unsent += data

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        self.is_aborted = True


class NoConnections:
    """Connections that are not kept; nobody handles their requests."""

    def __init__(self, dispatcher: Dispatcher | None = None, clock: Clock = time.perf_counter) -> None:
        self.dispatcher = dispatcher
        self.turns = Turns(clock)
        self.noted = 0

    def add(self, connection: RemotingConnection) -> str | None:
        return "one"

    def remove(self, connection: RemotingConnection) -> None:
        pass

    def passing_ms(self) -> int:
        return 0

    def note_unfinished(self, connection: RemotingConnection, held_bytes: int) -> None:
        self.held_bytes = held_bytes
        self.noted += 1


class Recorder:
    """A dispatcher that keeps the numbers of requests, and answers none."""

    def __init__(self) -> None:
        self.opaques: list[int] = []

    def handle(self, call: RemotingCall, respond: Respond) -> bool:
        self.opaques.append(call.command.opaque)
        return False
