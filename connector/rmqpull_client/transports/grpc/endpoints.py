"""The gRPC channels to the addresses of a connection, and the choice of the address for the next request."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Protocol, cast

import grpc
from grpc.experimental import ChannelOptions

from rmqpull_client.connection import Connection
from rmqpull_client.transports.grpc.security import load_credentials, make_headers
from rmqpull_proto.rpc import Method

_CONNECTING_MAX_MS = 5_000
_OPTIONS = (
    (ChannelOptions.SingleThreadedUnaryStream, 1),  # the waiting thread receives responses itself, which is faster
    ("grpc.max_receive_message_length", -1),  # a message may be as large as the broker permits
    ("grpc.max_send_message_length", -1),
    # gRPC's default back-off grows to two minutes. A broker that restarts should be found sooner.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Stream(Protocol):
    """The responses of a call, as they arrive."""

    def __iter__(self) -> Iterator[Any]: ...
    def __next__(self) -> Any: ...
    def cancel(self) -> bool: ...


class Endpoints:
    """The addresses of a connection, each with a channel that is opened on first use."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._addresses = connection.addresses
        self._current = self._addresses[0]
        self._channels: dict[str, grpc.Channel] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def choose(self, failed: Collection[str] = ()) -> str:
        """Returns the address for the next attempt: the last one chosen, or the next one if it has failed."""
        if self._current in failed:
            index = self._addresses.index(self._current)
            order = self._addresses[index + 1 :] + self._addresses[:index]
            self._current = next((address for address in order if address not in failed), self._current)
        return self._current

    # The call does not wait until the channel is ready: that would hide why it is not, and delay the other addresses.
    # Unary calls, too, are sent as calls with a stream of responses. On the wire this is the same, and gRPC needs no
    # thread for it, unlike for a unary call that can be cancelled.
    def send(self, address: str, method: Method, message: Any, timeout_s: float) -> Stream:
        """Sends a request and returns its responses. Raises OptionError if a certificate or key file cannot be used."""
        call = self._channel(address).unary_stream(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        return cast("Stream", call(message, timeout=timeout_s, metadata=make_headers(self._connection)))

    def _channel(self, address: str) -> grpc.Channel:
        if address not in self._channels:
            self._channels[address] = self._open(address)
        return self._channels[address]

    def _open(self, address: str) -> grpc.Channel:
        # Despite its name, this option limits how long an attempt to connect may take. It must leave time for the other
        # addresses.
        connecting_ms = min(_CONNECTING_MAX_MS, self._connection.request_timeout_ms // len(self))
        options = (*_OPTIONS, ("grpc.min_reconnect_backoff_ms", max(100, connecting_ms)))
        if self._connection.tls is None:
            return grpc.insecure_channel(address, options=options)
        return grpc.secure_channel(address, load_credentials(self._connection.tls), options=options)

    def drop(self, address: str) -> None:
        """Closes the channel to an address. The next one reads the certificate files again."""
        channel = self._channels.pop(address, None)  # another thread may have been faster
        if channel is not None:
            channel.close()

    def close(self) -> None:
        """Closes all channels."""
        for address in list(self._channels):
            self.drop(address)
