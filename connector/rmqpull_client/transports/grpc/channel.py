"""One connection per process and set of connection options: calls with a deadline, retried while the broker is away.

Spark forks its Python workers and uses them again, and a channel does not survive a fork; so channels are made on first
use and remembered with the id of the process that made them.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple, Protocol, cast

import grpc

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable, RequestRefused, RmqpullError
from rmqpull_client.transports.grpc.endpoints import Endpoints
from rmqpull_client.transports.grpc.failures import AWAY, FailedAttempts, make_refusal, refuse_status
from rmqpull_client.transports.grpc.namespaces import unwrap_response, wrap_request
from rmqpull_client.transports.grpc.retry import Cancellation
from rmqpull_client.transports.grpc.security import make_headers
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import Method

_PAUSE_MOST_S = 1.0


class Stream(Protocol):
    """The answers of a streaming call, as they come."""

    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def cancel(self) -> bool: ...


class _Attempt(NamedTuple):
    """A call under way, and whom it asks."""

    address: str
    call: Any


class _Request(NamedTuple):
    """How a call is begun, as ``begin(address, timeout_s)``, and how its answer is taken."""

    method: Method
    begin: Callable[[str, float], Any]
    take: Callable[[Any], Any]
    is_checked: bool = True


@dataclass
class BrokerChannel:
    """Calls to the endpoints of one connection. ``has_columns`` remembers what the server said of its extensions."""

    connection: Connection
    has_columns: bool | None = None
    _endpoints: Endpoints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._endpoints = Endpoints(self.connection)

    @property
    def endpoints(self) -> str:
        """Where the server listens, as errors tell it."""
        return self.connection.endpoints_and_namespace

    @property
    def request_timeout_ms(self) -> int:
        """How long one request may take, retries included."""
        return self.connection.request_timeout_ms

    def call(self, method: Method, request: Any, extra_ms: int = 0) -> Any:
        """The answer of a unary method. ``extra_ms`` is time that the broker is asked to wait.

        Raises BrokerUnavailable, HandshakeFailed, RequestRefused, or Unserved.
        """
        return self._retried(self._unary(method, request), extra_ms)

    def start(self, method: Method, request: Any, cancellation: Cancellation | None = None) -> Callable[[], Any]:
        """Begins a unary call at once; what it returns waits for the answer, as :meth:`call` does."""
        return self._begun(self._unary(method, request), cancellation)

    def start_stream(
        self, method: Method, request: Any, cancellation: Cancellation | None = None, extra_ms: int = 0
    ) -> Callable[[], list[Any]]:
        """Begins a streaming call at once; what it returns waits for all answers and leaves statuses to the caller.

        ``extra_ms`` is time that the broker is asked to wait.
        """
        entered = wrap_request(self.connection.namespace, request)

        def take(stream: Stream) -> list[Any]:
            answers = list(stream)
            for answer in answers[:1]:
                if answer.status.code == v2.Code.TOO_MANY_REQUESTS:  # is asked again, as any call
                    refuse_status(self.endpoints, method, answer.status)
            return answers

        streamed = _Request(method, lambda at, for_s: self._start(at, method, entered, for_s), take, False)
        return self._begun(streamed, cancellation, extra_ms)

    def close(self) -> None:
        """Closes the connection; the next call makes a new one."""
        self._endpoints.close()
        self.has_columns = None

    def _unary(self, method: Method, request: Any) -> _Request:
        entered = wrap_request(self.connection.namespace, request)
        return _Request(method, lambda at, for_s: self._start(at, method, entered, for_s), _only_answer)

    # No call waits until its channel is ready: why it is not would remain unsaid, and other addresses unasked.
    # A unary call is begun as a stream of one answer, which is the same on the wire: for any other call that can be
    # cancelled gRPC starts a thread.
    def _start(self, address: str, method: Method, request: Any, timeout_s: float) -> Stream:
        multi_callable = self._endpoints.channel(address).unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return cast("Stream", multi_callable(request, timeout=timeout_s, metadata=make_headers(self.connection)))

    def _begun(self, request: _Request, cancellation: Cancellation | None, extra_ms: int = 0) -> Callable[[], Any]:
        """Begins the first attempt now. The deadline for what follows counts from when somebody waits for the answer:
        Spark may take longer over a batch than a request may last, and the broker may have been away meanwhile."""
        pause: Callable[[float], object] | None = None
        if cancellation is not None:
            request, pause = request._replace(begin=cancellation.watched(request.begin)), cancellation.pause
        first = [self._attempt(request, (self.request_timeout_ms + extra_ms) / 1000, extra_ms, ())]
        return lambda: self._retried(request, extra_ms, first.pop() if first else None, pause)

    def _attempt(self, request: _Request, left_s: float, extra_ms: int, failed: Collection[str]) -> _Attempt:
        """Asks an address that has not failed, with its share of the time that is left for it and those after it."""
        extra_s = min(extra_ms / 1000, left_s)
        timeout_s = extra_s + (left_s - extra_s) / (len(self._endpoints) - len(failed))
        address = self._endpoints.next(failed)
        return _Attempt(address, request.begin(address, max(timeout_s, 0.001)))

    def _retried(
        self,
        request: _Request,
        extra_ms: int,
        first: _Attempt | None = None,
        pause: Callable[[float], object] | None = None,
    ) -> Any:
        """Tries until the deadline while the broker is away or asks to come again later, all addresses each time."""
        deadline_s = time.monotonic() + (self.request_timeout_ms + extra_ms) / 1000
        absences = FailedAttempts(self.connection, request.method)
        for pause_s in self._pauses_s():
            try:
                return self._asked_around(request, deadline_s, extra_ms, first, absences)
            except BrokerUnavailable as error:
                failure: RmqpullError = error
            except RequestRefused as error:
                if error.code != "TOO_MANY_REQUESTS":
                    raise
                failure = error
            first = None
            if pause_s is None or time.monotonic() + pause_s >= deadline_s:
                raise failure from None
            (pause or time.sleep)(pause_s)
        raise AssertionError("the last pause is None")

    def _asked_around(
        self, request: _Request, deadline_s: float, extra_ms: int, first: _Attempt | None, absences: FailedAttempts
    ) -> Any:
        """The answer of the first address that gives one; each is asked once, as long as there is time."""
        failed: set[str] = set()
        while True:
            attempt, first = first or self._attempt(request, deadline_s - time.monotonic(), extra_ms, failed), None
            try:
                return self._checked(request, request.take(attempt.call))
            except grpc.RpcError as error:
                self._note(absences, attempt.address, error)
            failed.add(attempt.address)
            if len(failed) == len(self._endpoints) or time.monotonic() >= deadline_s:
                raise absences.error() from None

    def _note(self, absences: FailedAttempts, address: str, error: grpc.RpcError) -> None:
        """Keeps what gRPC says of an address that is away. Raises RequestRefused when it is there."""
        if error.code() not in AWAY:
            if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                self.has_columns = None  # another server may listen there now: the next client asks again
            raise make_refusal(self.connection, absences.method, error) from None
        absences.add(address, error)
        if absences.is_untrusted(address):
            self._endpoints.drop(address)

    def _checked(self, request: _Request, answer: Any) -> Any:
        if not request.is_checked:
            return answer
        refuse_status(self.endpoints, request.method, answer.status)
        return unwrap_response(self.connection.namespace, answer)

    def _pauses_s(self) -> Iterator[float | None]:
        """The pause after each try; None after the last that there may be."""
        retries = self.connection.request_retries
        pause_s = self.connection.request_retry_interval_ms / 1000
        most_s = max(pause_s, _PAUSE_MOST_S)
        for _ in count() if retries is None else range(retries):
            yield pause_s * random.uniform(0.5, 1.0)
            pause_s = min(2 * pause_s, most_s)
        yield None


def _only_answer(call: Stream) -> Any:
    """The answer of a unary method; the status comes behind it."""
    answer, *_ = call
    return answer


_channels: dict[tuple[int, Connection], BrokerChannel] = {}


def get_channel(connection: Connection) -> BrokerChannel:
    """The channel of this process for ``connection``, made on first use."""
    key = (os.getpid(), connection)
    if key not in _channels:
        _channels[key] = BrokerChannel(connection)
    return _channels[key]
