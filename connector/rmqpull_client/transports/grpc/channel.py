"""The calls that a process makes over one connection, with retries and a deadline."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from rmqpull_client.connection import Connection
from rmqpull_client.errors import Unserved
from rmqpull_client.transports.grpc.endpoints import Endpoints
from rmqpull_client.transports.grpc.namespaces import wrap_request
from rmqpull_client.transports.grpc.retry import Cancellation, Request, Retry
from rmqpull_proto.rpc import Method

KNOWN_FOR_S = 1.0
"""How long a process trusts a server's list of extensions. Spark reuses a process for many queries, so another server
may answer at the address by then, or the same one with other extensions."""


@dataclass
class BrokerChannel:
    """Calls to the endpoints of one connection."""

    connection: Connection
    instances_seen: int | None = None
    """How many different runs of the server have answered. None if the server does not identify its runs."""
    _instance_id: str = field(default="", repr=False)
    _endpoints: Endpoints = field(init=False, repr=False)
    _has_columns: bool | None = field(default=None, repr=False)
    _forget_at_s: float = field(default=0.0, repr=False)
    read_clock_s: Callable[[], float] = field(default=time.monotonic, repr=False)

    def __post_init__(self) -> None:
        self._endpoints = Endpoints(self.connection)

    @property
    def endpoints(self) -> str:
        """The endpoints and the namespace, for error messages."""
        return self.connection.endpoints_and_namespace

    @property
    def has_columns(self) -> bool | None:
        """Whether the server has the columnar extension. None: not known, or learned too long ago."""
        return self._has_columns if self.read_clock_s() < self._forget_at_s else None

    def note_columns(self, has_columns: bool) -> None:
        """Records whether the server has the columnar extension."""
        self._has_columns = has_columns
        self._forget_at_s = self.read_clock_s() + KNOWN_FOR_S

    def call(self, method: Method, message: Any, extra_ms: int = 0) -> Any:
        """Returns the response of a unary method. ``extra_ms`` is the time that the broker may park the request.

        Raises BrokerUnavailable, HandshakeFailed or RequestRefused.
        """
        return self._wait(self._make_retry(method, message, extra_ms=extra_ms))

    def start(self, method: Method, message: Any, cancellation: Cancellation | None = None) -> Callable[[], Any]:
        """Sends a unary request now. The returned function waits for the response, like :meth:`call`."""
        retry = self._make_retry(method, message, cancellation)
        retry.start()
        return lambda: self._wait(retry)

    def start_stream(
        self, method: Method, message: Any, cancellation: Cancellation | None = None, extra_ms: int = 0
    ) -> Callable[[], list[Any]]:
        """Sends a request with a stream of responses now. The returned function waits for all of them.

        It does not check their statuses. ``extra_ms`` is the time that the broker may park the request.
        """
        retry = self._make_retry(method, message, cancellation, True, extra_ms)
        retry.start()
        return lambda: cast("list[Any]", self._wait(retry))

    def note_instance(self, instance_id: str) -> None:
        """Records which run of the server has answered; empty if the server does not identify its runs."""
        if instance_id not in ("", self._instance_id):
            self._instance_id = instance_id
            self.instances_seen = (self.instances_seen or 0) + 1

    def close(self) -> None:
        """Closes the connection. The next call opens a new one."""
        self._endpoints.close()
        self._forget_at_s = 0.0

    def _make_retry(
        self,
        method: Method,
        message: Any,
        cancellation: Cancellation | None = None,
        is_stream: bool = False,
        extra_ms: int = 0,
    ) -> Retry:
        request = Request(method, wrap_request(self.connection.namespace, message), is_stream, extra_ms)
        return Retry(self.connection, self._endpoints, request, cancellation)

    def _wait(self, retry: Retry) -> Any:
        try:
            return retry.wait()
        except Unserved:
            self._forget_at_s = 0.0  # another server may be at this address now: the next client asks again
            raise


# Spark forks its Python workers and reuses them, and a gRPC channel does not survive a fork. So the process id is part
# of the key.
_channels: dict[tuple[int, Connection], BrokerChannel] = {}


def get_channel(connection: Connection) -> BrokerChannel:
    """Returns this process's channel for ``connection``. It is created on first use."""
    key = (os.getpid(), connection)
    if key not in _channels:
        _channels[key] = BrokerChannel(connection)
    return _channels[key]
