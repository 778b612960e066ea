"""What the connections of an operation need from the channel that it runs on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rmqpull_client.connection import Connection
from rmqpull_client.errors import RmqpullError
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.network.connections import BrokerConnection, ConnectionLost
from rmqpull_proto.remoting.command import RemotingCommand


class NotLocatedYet(Exception):
    """No server for a target is known yet, but one may appear. ``error`` is what to raise when time runs out."""

    def __init__(self, error: RmqpullError) -> None:
        super().__init__(str(error))
        self.error = error


class Servers(Protocol):
    """What an exchange needs from its channel."""

    @property
    def connection(self) -> Connection:
        """The settings."""

    def encode(self, command: RemotingCommand, opaque: int, broker_name: str = "") -> bytes:
        """Returns the frame of a request, with its namespace, the name of its broker and its signature."""

    def find_places(self, target: Target, deadline_s: float) -> Sequence[Place]:
        """Returns where to send a request, the best place first. Raises NotLocatedYet and RmqpullError."""

    def borrow(self, place: Place, attempt: int) -> BrokerConnection:
        """Returns a connection that nobody else uses. Raises ConnectionLost and OptionError."""

    def give_back(self, connection: BrokerConnection) -> None:
        """Takes a connection back."""

    def note_lost(self, target: Target, place: Place, lost: ConnectionLost) -> None:
        """Records that a server did not respond."""
