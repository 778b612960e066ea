"""One gRPC channel per process and endpoint: calls with a deadline, retried while the broker is away.

Spark forks its Python workers and uses them again, and a channel does not survive a fork; so channels are made on first
use and remembered with the id of the process that made them.
"""

from __future__ import annotations

import datetime
import os
import random
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import grpc

from pyspark_rmqpull import __version__
from pyspark_rmqpull.connection import Connection
from pyspark_rmqpull.errors import BrokerUnavailable, RequestRefused
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import Method

_BACK_OFF_FIRST_S = 0.05
_BACK_OFF_MOST_S = 1.0
_OPTIONS = (
    ("grpc.max_receive_message_length", -1),  # one message may be as large as the broker keeps it
    ("grpc.max_send_message_length", -1),
    # A broker that restarts is found again quickly: gRPC's own back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)
# CANCELLED is what a call gets that meets a broker on its way down; nobody here cancels a unary call.
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


class Stream(Protocol):
    """The answers of a streaming call, as they come."""

    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def cancel(self) -> bool: ...


class Unserved(RequestRefused):
    """The server does not have this method."""

    def __init__(self, endpoints: str, method: Method) -> None:
        super().__init__(
            "UNIMPLEMENTED",
            f"The server at {endpoints} does not serve {method.name}. If it was restarted with other extensions, run "
            "the query again. Otherwise it lacks the pull family of apache.rocketmq.v2 (PullMessage and the offsets), "
            "which a source needs and Apache's own proxy does not have; rmqpull-broker does.",
        )


@dataclass
class BrokerChannel:
    """Calls to one endpoint. ``has_columns`` remembers what the server said of its extensions."""

    connection: Connection
    has_columns: bool | None = None
    _channel: grpc.Channel | None = field(default=None, repr=False)

    @property
    def endpoints(self) -> str:
        """Where the server listens."""
        return self.connection.endpoints

    @property
    def request_timeout_ms(self) -> int:
        """How long one request may take, retries included."""
        return self.connection.request_timeout_ms

    def call(self, method: Method, request: Any, extra_ms: int = 0) -> Any:
        """The answer of a unary method. ``extra_ms`` is time that the broker is asked to wait.

        Raises BrokerUnavailable, RequestRefused, or Unserved.
        """
        return self._retried(method, extra_ms, lambda left_s: self._start(method, request, left_s).result())

    def start(self, method: Method, request: Any) -> Callable[[], Any]:
        """Begins a unary call at once; what it returns waits for the answer, as :meth:`call` does."""
        return self._begun(method, lambda left_s: self._start(method, request, left_s), lambda call: call.result())

    def start_stream(self, method: Method, request: Any) -> Callable[[], list[Any]]:
        """Begins a streaming call at once; what it returns waits for all answers and leaves statuses to the caller."""
        return self._begun(method, lambda left_s: self._stream(method, request, left_s), list, check=False)

    def stream(self, method: Method, request: Any, extra_ms: int = 0) -> Stream:
        """Begins a streaming call at once and gives its answers; errors are raw gRPC errors."""
        return self._stream(method, request, (self.request_timeout_ms + extra_ms) / 1000)

    def _stream(self, method: Method, request: Any, timeout_s: float) -> Stream:
        multi_callable = self._connected().unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        metadata = _metadata(self.connection.client_id)
        stream = multi_callable(request, timeout=timeout_s, metadata=metadata, wait_for_ready=True)
        return cast("Stream", stream)

    def close(self) -> None:
        """Closes the connection; the next call makes a new one."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self.has_columns = None

    def _connected(self) -> grpc.Channel:
        if self._channel is None:
            self._channel = grpc.insecure_channel(self.endpoints, options=_OPTIONS)
        return self._channel

    def _start(self, method: Method, request: Any, timeout_s: float) -> Any:
        multi_callable = self._connected().unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return multi_callable.future(
            request, timeout=timeout_s, metadata=_metadata(self.connection.client_id), wait_for_ready=True
        )

    def _begun(
        self, method: Method, begin: Callable[[float], Any], take: Callable[[Any], Any], check: bool = True
    ) -> Callable[[], Any]:
        """Begins the first attempt now. The deadline for what follows counts from when somebody waits for the answer:
        Spark may take longer over a batch than a request may last, and the broker may have been away meanwhile."""
        first = [begin(self.request_timeout_ms / 1000)]
        return lambda: self._retried(
            method, 0, lambda left_s: take(first.pop() if first else begin(left_s)), check=check
        )

    def _retried(self, method: Method, extra_ms: int, attempt: Callable[[float], Any], check: bool = True) -> Any:
        """Tries until the deadline while the broker is away or asks to come again later."""
        deadline_s = time.monotonic() + (self.request_timeout_ms + extra_ms) / 1000
        back_off_s = _BACK_OFF_FIRST_S
        while True:
            left_s = deadline_s - time.monotonic()
            try:
                answer = attempt(max(left_s, 0.001))
                return self._checked(method, answer) if check else answer
            except grpc.RpcError as error:
                failure: Exception = self._failure(method, error)
                may_retry = error.code() in _AWAY
            except RequestRefused as error:
                failure, may_retry = error, error.code == "TOO_MANY_REQUESTS"
            pause_s = back_off_s * random.uniform(0.5, 1.0)
            if not may_retry or time.monotonic() + pause_s >= deadline_s:
                raise failure from None
            time.sleep(pause_s)
            back_off_s = min(2 * back_off_s, _BACK_OFF_MOST_S)

    def _checked(self, method: Method, answer: Any) -> Any:
        refuse(self.endpoints, method, answer.status)
        return answer

    def _failure(self, method: Method, error: grpc.RpcError) -> Exception:
        code = error.code()
        if code is grpc.StatusCode.UNIMPLEMENTED:
            self.has_columns = None  # another server may listen there now: the next client asks again
            return Unserved(self.endpoints, method)
        if code in _AWAY:
            return BrokerUnavailable(
                f"No broker answered {method.name} at {self.endpoints} within {self.request_timeout_ms} ms "
                f"({error.details()}). Check option endpoints and that the broker runs; "
                "requestTimeoutMs says how long to wait for one that restarts."
            )
        return RequestRefused(
            code.name, f"{method.name} at {self.endpoints} failed with {code.name}: {error.details()}"
        )


def refuse(endpoints: str, method: Method, status: v2.Status) -> None:
    """Raises RequestRefused unless a status is OK."""
    if status.code != v2.Code.OK:
        code = v2.Code.Name(status.code) if status.code in v2.Code.values() else str(status.code)
        raise RequestRefused(code, f"The broker at {endpoints} answered {method.name} with {code}: {status.message}")


_channels: dict[tuple[int, Connection], BrokerChannel] = {}


def channel_of_process(connection: Connection) -> BrokerChannel:
    """The channel of this process for ``connection``, made on first use."""
    key = (os.getpid(), connection)
    if key not in _channels:
        _channels[key] = BrokerChannel(connection)
    return _channels[key]


def _metadata(client_id: str | None) -> tuple[tuple[str, str], ...]:
    """The headers of rocketmq-semantics 5.2; the server requires the client id, which no two processes may share."""
    client = "" if client_id is None else f"{client_id}@"
    now = datetime.datetime.now(datetime.timezone.utc)
    return (
        ("x-mq-client-id", f"{client}{socket.gethostname()}@{os.getpid()}@rmqpull"),
        ("x-mq-language", "PYTHON"),
        ("x-mq-client-version", __version__),
        ("x-mq-protocol", "v2"),
        ("x-mq-date-time", now.strftime("%Y%m%dT%H%M%SZ")),
        ("x-mq-request-id", str(uuid.uuid4())),
    )
