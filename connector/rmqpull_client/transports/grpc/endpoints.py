"""The gRPC channels to the addresses of one connection, and which of them is asked."""

from __future__ import annotations

from collections.abc import Collection

import grpc
from grpc.experimental import ChannelOptions

from rmqpull_client.connection import Connection
from rmqpull_client.transports.grpc.security import load_credentials

_CONNECTING_MOST_MS = 5_000
_OPTIONS = (
    (ChannelOptions.SingleThreadedUnaryStream, 1),  # whoever waits for an answer takes it, without a thread between
    ("grpc.max_receive_message_length", -1),  # one message may be as large as the broker keeps it
    ("grpc.max_send_message_length", -1),
    # A broker that restarts is found again quickly: gRPC's own back-off grows to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
)


class Endpoints:
    """Addresses with a channel each, made on first use. The one that answered is asked on."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._addresses = connection.addresses
        self._asked = self._addresses[0]
        self._channels: dict[str, grpc.Channel] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def next(self, failed: Collection[str] = ()) -> str:
        """Whom to ask: who answered last, else the next that has not failed meanwhile."""
        if self._asked in failed:
            place = self._addresses.index(self._asked)
            order = self._addresses[place + 1 :] + self._addresses[:place]
            self._asked = next((address for address in order if address not in failed), self._asked)
        return self._asked

    def channel(self, address: str) -> grpc.Channel:
        """The channel to an address. Raises OptionError when a file of its certificates cannot be used."""
        if address not in self._channels:
            self._channels[address] = self._open(address)
        return self._channels[address]

    def _open(self, address: str) -> grpc.Channel:
        # How long an attempt to connect may take, whatever the name says: it must leave time for the other addresses.
        connecting_ms = min(_CONNECTING_MOST_MS, self._connection.request_timeout_ms // len(self))
        options = (*_OPTIONS, ("grpc.min_reconnect_backoff_ms", max(100, connecting_ms)))
        if self._connection.tls is None:
            return grpc.insecure_channel(address, options=options)
        return grpc.secure_channel(address, load_credentials(self._connection.tls), options=options)

    def drop(self, address: str) -> None:
        """Closes the channel to an address; the next one reads its certificates anew."""
        channel = self._channels.pop(address, None)  # whichever thread comes first
        if channel is not None:
            channel.close()

    def close(self) -> None:
        """Closes all channels."""
        for address in list(self._channels):
            self.drop(address)
