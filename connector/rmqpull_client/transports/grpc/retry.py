"""Sends one request until a server responds: to all addresses in turn, with retries, until a deadline."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import grpc

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerBusy, BrokerUnavailable, RequestRefused, RmqpullError
from rmqpull_client.transports.away import ANSWERED, WAITS, TimeLimit, make_key
from rmqpull_client.transports.grpc.endpoints import Endpoints, Stream
from rmqpull_client.transports.grpc.failures import FailedAttempts, is_unavailable, make_call_refusal, refuse_status
from rmqpull_client.transports.grpc.namespaces import unwrap_response
from rmqpull_client.transports.pauses import make_pauses_s
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import Method


class Cancelled(RmqpullError):
    """The caller no longer wants the response."""


class Cancellation:
    """Cancels the requests of a thread that sends them one at a time. Another thread calls :meth:`cancel`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cancelled = threading.Event()
        # A weak reference, because a call keeps its response in memory.
        self._stream: Callable[[], Stream | None] = lambda: None

    def watch(self, send: Callable[[], Stream]) -> Stream:
        """Sends a request so that it can be cancelled. Raises Cancelled after :meth:`cancel`."""
        with self._lock:
            if self._is_cancelled.is_set():
                raise Cancelled("The call was cancelled.")
            stream = send()
            self._stream = weakref.ref(stream)
            return stream

    def pause(self, seconds: float) -> None:
        """Sleeps between two tries, until cancelled."""
        self._is_cancelled.wait(seconds)

    def cancel(self) -> None:
        """Ends the request in flight, and refuses later ones."""
        with self._lock:
            self._is_cancelled.set()
            if (stream := self._stream()) is not None:
                stream.cancel()


class Request(NamedTuple):
    """A request with its names in the namespace. ``extra_ms`` is the time that the broker may park it."""

    method: Method
    message: Any
    is_stream: bool = False
    extra_ms: int = 0


class Attempt(NamedTuple):
    """A request in flight at one address."""

    address: str
    request: Request
    stream: Stream

    def receive(self, connection: Connection) -> Any:
        """Waits for the response: one message, or for a stream the list of all.

        The statuses within a stream are left to the caller, except for TOO_MANY_REQUESTS. Raises RequestRefused and
        grpc.RpcError.
        """
        endpoints, method = connection.endpoints_and_namespace, self.request.method
        if self.request.is_stream:
            responses = list(self.stream)
            if responses and responses[0].status.code == v2.Code.TOO_MANY_REQUESTS:
                refuse_status(endpoints, method, responses[0].status)
            return responses
        response, *_ = self.stream  # read to the end, which carries the status of the call
        refuse_status(endpoints, method, response.status)
        return unwrap_response(connection.namespace, response)


class Retry:
    """One request and its attempts.

    A *try* sends the request to each address once, until one responds. Tries follow each other, with pauses, while the
    servers are unavailable or busy, until the connection's retries or the deadline are used up. While servers that have
    answered before are away, the deadline is extended.
    """

    def __init__(
        self, connection: Connection, endpoints: Endpoints, request: Request, cancellation: Cancellation | None = None
    ) -> None:
        self._connection = connection
        self._endpoints = endpoints
        self._request = request
        self._cancellation = cancellation
        self._limit_s = (connection.request_timeout_ms + request.extra_ms) / 1000
        self._first: Attempt | None = None

    def start(self) -> None:
        """Sends the first attempt. :meth:`wait` receives its response."""
        self._first = self._send(self._limit_s, ())

    def wait(self) -> Any:
        """Returns the response: see :meth:`Attempt.receive`.

        Raises BrokerUnavailable, HandshakeFailed, RequestRefused and, with a cancellation, Cancelled.
        """
        # The deadline counts from here, not from start(): in between, the caller may have been busy for longer than a
        # request may take, and the broker unavailable.
        limit = TimeLimit.of(self._connection, time.monotonic(), self._request.extra_ms / 1000)
        failures = FailedAttempts(self._connection, self._request.method)
        was_away = False
        for pause_s in make_pauses_s(self._connection):
            try:
                return self._try_addresses(limit.deadline_s, failures)
            except (BrokerUnavailable, BrokerBusy) as error:
                failure = error
            is_away = isinstance(failure, BrokerUnavailable) and failures.is_known
            if was_away and not is_away:
                limit.extend(time.monotonic())  # a server that has just come back is busy at first
            was_away = is_away
            if pause_s is None:
                raise failure from None
            next_s = time.monotonic() + pause_s
            if next_s >= limit.deadline_s and not (is_away and limit.extend(next_s)):
                raise failure from None
            if is_away:
                WAITS.note(limit, next_s, f"the server at {self._connection.endpoints}")
            self._pause(pause_s)
        raise AssertionError("the last pause is None")

    def _try_addresses(self, deadline_s: float, failures: FailedAttempts) -> Any:
        """Sends to each address at most once, and returns the first response."""
        failed: set[str] = set()
        while True:
            attempt, self._first = self._first or self._send(deadline_s - time.monotonic(), failed), None
            try:
                response = attempt.receive(self._connection)
            except grpc.RpcError as error:
                if not is_unavailable(error):
                    ANSWERED.add(make_key(self._connection, attempt.address))
                    raise make_call_refusal(self._connection, self._request.method, error) from None
                failures.add(attempt.address, error)
            except RequestRefused:
                ANSWERED.add(make_key(self._connection, attempt.address))
                raise
            else:
                ANSWERED.add(make_key(self._connection, attempt.address))
                return response
            failed.add(attempt.address)
            if failures.is_handshake_failure(attempt.address):
                self._endpoints.drop(attempt.address)
            if len(failed) == len(self._endpoints) or time.monotonic() >= deadline_s:
                raise failures.make_error() from None

    def _send(self, left_s: float, failed: Collection[str]) -> Attempt:
        """Sends to an address that has not failed in this try. The attempt gets its share of the remaining time."""
        method, message, _, extra_ms = self._request
        extra_s = min(extra_ms / 1000, left_s)
        timeout_s = max(extra_s + (left_s - extra_s) / (len(self._endpoints) - len(failed)), 0.001)
        address = self._endpoints.choose(failed)
        if self._cancellation is None:
            stream = self._endpoints.send(address, method, message, timeout_s)
        else:
            stream = self._cancellation.watch(lambda: self._endpoints.send(address, method, message, timeout_s))
        return Attempt(address, self._request, stream)

    def _pause(self, seconds: float) -> None:
        if self._cancellation is None:
            time.sleep(seconds)
        else:
            self._cancellation.pause(seconds)
