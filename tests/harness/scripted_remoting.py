"""Name servers and brokers that respond from a script, over real sockets: they can stall, lie and close, too.

broker = ScriptedServer(lambda request: request.make_response(0, {"offset": "7"}))
name_server = ScriptedServer(RouteScript({"orders": make_route({"broker-a": {0: broker.address}})}))
with broker, name_server:
    RemotingChannel(Connection(name_servers=name_server.address)).call(...)
"""

from __future__ import annotations

import enum
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, decode_command, encode_command
from rmqpull_proto.remoting.frames import split_frames
from rmqpull_proto.remoting.routes import BrokerData, ClusterInfo, QueueData, TopicList, TopicRoute

LOOPBACK = "127.0.0.1"


class Act(enum.Enum):
    """What a server may do instead of sending a response."""

    STALL = "stay silent"
    CLOSE = "close the connection"


Reaction: TypeAlias = "RemotingCommand | bytes | Act"
"""A response, bytes that are sent as they are, or an act."""
Script = Callable[[RemotingCommand], Reaction]


class ScriptedServer:
    """A server on a free loopback port. The ``with`` block starts and stops it.

    The port is the server's own from the beginning, so that its address is known. ``requests`` has all requests in
    their order, and ``connections`` counts how many were accepted. ``greeting`` is sent to every new connection, or
    with ``is_closing_at_once`` it is closed. With ``unsent_max``, the server drops a response if those to requests that
    have arrived together have more bytes, as Apache's proxy does with a client that is slow to receive. These and the
    script may be changed at any time.
    """

    def __init__(
        self, script: Script, tls: ssl.SSLContext | None = None, greeting: bytes = b"", host: str = LOOPBACK
    ) -> None:
        self.script = script
        self.tls = tls
        self.greeting = greeting
        self.is_closing_at_once = False
        self.unsent_max: int | None = None
        self.dropped = 0
        self.requests: list[RemotingCommand] = []
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._host = host
        self._listener = self._listen(0)
        self.port: int = self._listener.getsockname()[1]

    @property
    def address(self) -> str:
        """``HOST:PORT`` of the server."""
        return f"[{self._host}]:{self.port}" if ":" in self._host else f"{self._host}:{self.port}"

    def __enter__(self) -> ScriptedServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Accepts connections, again after :meth:`stop`, on the same port."""
        if self._listener.fileno() < 0:
            self._listener = self._listen(self.port)
        self._listener.listen()
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def stop(self) -> None:
        """Refuses connections, and closes those that are open. Does nothing if it is stopped."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # it ends the thread that accepts
        self._listener.close()
        self.close_connections()

    def close_connections(self) -> None:
        """Closes all open connections, as a server does with idle ones. What was sent before still arrives."""
        with self._lock:
            for connection in self._open:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self._open.clear()

    def push(self, response: Reaction) -> None:
        """Sends a response on all open connections, as a broker responds to a parked pull."""
        assert isinstance(response, RemotingCommand)
        with self._lock:
            for connection in self._open:
                connection.sendall(encode_command(response))

    def count(self, code: int) -> int:
        """Returns how many requests with a code have arrived."""
        return sum(request.code == code for request in self.requests)

    def _listen(self, port: int) -> socket.socket:
        listener = socket.socket(self._family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((self._host, port))  # nobody else gets the port; connections are refused until it listens
        return listener

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with suppress(OSError, ValueError), plain:
            if self.is_closing_at_once:
                return
            secured = plain if self.tls is None else self.tls.wrap_socket(plain, server_side=True)
            with secured:
                secured.sendall(self.greeting)
                self._respond_to_all(secured)
        with self._lock:
            self._open.discard(plain)

    def _respond_to_all(self, connection: socket.socket) -> None:
        received = bytearray()
        while part := connection.recv(1 << 16):
            received += part
            frames = split_frames(memoryview(bytes(received)), 0, len(received))
            unsent = 0
            for start, end in frames:
                request = decode_command(bytes(received[start:end]))
                self.requests.append(request)
                reaction = self.script(request)
                if reaction is Act.CLOSE:
                    return
                if isinstance(reaction, RemotingCommand):
                    reaction = encode_command(reaction)
                if not isinstance(reaction, bytes):
                    continue
                if self.unsent_max is not None and unsent > self.unsent_max:
                    self.dropped += 1
                    continue
                unsent += len(reaction)
                connection.sendall(reaction)
            if frames:
                del received[: frames[-1][1]]


class RouteScript:
    """The script of a name server: routes of topics, which may be changed at any time."""

    def __init__(self, routes: Mapping[str, TopicRoute], clusters: Mapping[str, tuple[str, ...]] | None = None) -> None:
        self.routes = dict(routes)
        self.clusters = dict(clusters or {})

    def __call__(self, request: RemotingCommand) -> Reaction:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            topic = request.fields["topic"]
            if (route := self.routes.get(topic)) is None:
                remark = f"No topic route info in name server for the topic: {topic}"
                return request.make_response(ResponseCode.TOPIC_NOT_EXIST, remark=remark)
            return request.make_response(ResponseCode.SUCCESS, body=route.encode())
        if request.code == RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
            return request.make_response(ResponseCode.SUCCESS, body=TopicList(tuple(self.routes)).encode())
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            brokers = {data.broker_name: data for route in self.routes.values() for data in route.broker_datas}
            return request.make_response(ResponseCode.SUCCESS, body=ClusterInfo(brokers, self.clusters).encode())
        return refuse_code(request)


def refuse_code(request: RemotingCommand) -> RemotingCommand:
    """Responds as a server that does not know the request."""
    remark = f" request type {request.code} not supported"
    return request.make_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)


def make_route(
    brokers: Mapping[str, Mapping[int, str]], queues: int = 4, perm: int = 6, write_queues: int | None = None
) -> TopicRoute:
    """Returns the route of a topic with as many queues on each broker. Addresses are by broker name and broker id."""
    writable = queues if write_queues is None else write_queues
    return TopicRoute(
        queue_datas=tuple(QueueData(name, queues, writable, perm) for name in brokers),
        broker_datas=tuple(BrokerData("DefaultCluster", name, addresses) for name, addresses in brokers.items()),
    )
