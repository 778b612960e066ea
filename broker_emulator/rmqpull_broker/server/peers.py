"""The connections of registered clients of the remoting protocol, by their channels in the registries."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerIdsChanged
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import ONEWAY, RemotingCommand, Serialization
from rmqpull_proto.remoting.header_fields import Header
from rmqpull_proto.remoting.headers import GroupRequestHeader


class Peer(Protocol):
    """A connection as handlers see it."""

    @property
    def channel_id(self) -> str:
        """Identifies the connection in the registries."""

    @property
    def remote_address(self) -> str:
        """``host:port`` of the client."""

    @property
    def is_open(self) -> bool:
        """Whether the connection can still be written to."""

    def send(self, command: RemotingCommand) -> None:
        """Sends a one-way request to the client. Does nothing if the connection is closed."""

    async def ask(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        """Sends a request to the client, and returns its response. Raises TimeoutError, and ConnectionError."""

    def ending_with_connection(self) -> AbstractContextManager[None]:
        """Cancels the current task if the connection is closed within the block, or is closed already."""

    def note_step(self, seconds: float) -> None:
        """Notes how long a step of one of its requests has occupied the event loop."""

    def note_end(self) -> None:
        """Notes that the task of one of its requests has ended."""

    def close(self) -> None:
        """Closes the connection once what is already written is sent."""


class _Registered(NamedTuple):
    peer: Peer
    client_id: str


class Peers:
    """The connections of all registered clients. Clients of ``apache.rocketmq.v2`` have none here."""

    def __init__(self) -> None:
        self._registered: dict[str, _Registered] = {}

    def __len__(self) -> int:
        return len(self._registered)

    def add(self, peer: Peer, client_id: str = "") -> None:
        """Keeps the connection of a client that has registered."""
        self._registered[peer.channel_id] = _Registered(peer, client_id)

    def remove(self, channel_id: str) -> bool:
        """Forgets a connection that is closed. Returns whether its client had registered."""
        return self._registered.pop(channel_id, None) is not None

    def find_client_id(self, channel_id: str) -> str:
        """Returns the client id of a connection; an empty text if no client has registered on it."""
        found = self._registered.get(channel_id)
        return "" if found is None else found.client_id

    def find(self, channel: ClientChannel) -> Peer | None:
        """Returns the connection of a member or a producer; None for a client of another protocol."""
        found = self._registered.get(channel.channel_id)
        return None if found is None else found.peer

    def notify(self, changes: Iterable[ConsumerIdsChanged]) -> None:
        """Sends NOTIFY_CONSUMER_IDS_CHANGED to the members of changed groups (rules 3.6)."""
        for change in changes:
            for peer in map(self.find, change.channels):
                if peer is not None:
                    header = GroupRequestHeader(consumer_group=change.group)
                    peer.send(make_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header, is_oneway=True))

    def close(self, channels: Iterable[ClientChannel]) -> None:
        """Closes the connections of expired clients. They are forgotten once they are closed."""
        for peer in map(self.find, channels):
            if peer is not None:
                peer.close()


def make_request(
    code: RequestCode, header: Header, body: bytes | memoryview = b"", *, is_oneway: bool = False
) -> RemotingCommand:
    """Makes a request of the broker to a client, with a JSON header, which every client can read."""
    flag = ONEWAY if is_oneway else 0
    return RemotingCommand(code, header.to_fields(), body, flag=flag, serialization=Serialization.JSON)
