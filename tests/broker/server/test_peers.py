"""The connections of registered clients."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerIdsChanged
from rmqpull_broker.server.peers import Peers
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand

ANN, BOB, OF_GRPC = ClientChannel("ann's", "ann"), ClientChannel("bob's", "bob"), ClientChannel("eve", "eve")


class Connection:
    """A connection that keeps what it is told."""

    remote_address = "127.0.0.1:5000"

    def __init__(self, channel: ClientChannel) -> None:
        self.channel_id = channel.channel_id
        self.is_open = True
        self.sent: list[RemotingCommand] = []

    def send(self, command: RemotingCommand) -> None:
        self.sent.append(command)

    async def ask(self, command: RemotingCommand, timeout_ms: int) -> RemotingCommand:
        raise ConnectionError

    def note_step(self, seconds: float) -> None:
        raise NotImplementedError

    def note_end(self) -> None:
        raise NotImplementedError

    def ending_with_connection(self) -> AbstractContextManager[None]:
        return nullcontext()

    def close(self) -> None:
        self.is_open = False


def connect(peers: Peers, channel: ClientChannel) -> Connection:
    connection = Connection(channel)
    peers.add(connection)
    return connection


def test_members_of_the_remoting_protocol_are_notified_one_way() -> None:
    peers = Peers()
    ann, bob = connect(peers, ANN), connect(peers, BOB)
    peers.notify([ConsumerIdsChanged("readers", (ANN, OF_GRPC))])
    (notice,) = ann.sent
    assert (notice.code, notice.is_oneway) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, True)
    assert notice.fields == {"consumerGroup": "readers"}
    assert bob.sent == []


def test_expired_clients_are_disconnected() -> None:
    peers = Peers()
    ann, bob = connect(peers, ANN), connect(peers, BOB)
    peers.close([ANN, OF_GRPC])
    assert (ann.is_open, bob.is_open) == (False, True)
    assert (peers.find(ANN), peers.find(BOB), peers.find(OF_GRPC)) == (ann, bob, None)


def test_a_closed_connection_is_forgotten() -> None:
    peers = Peers()
    connect(peers, ANN)
    assert [peers.remove(ANN.channel_id) for _ in range(2)] == [True, False]
    assert len(peers) == 0
