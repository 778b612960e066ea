"""How long a request waits for servers that are away. Only pauses move the clock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.transports.remoting.network import links
from rmqpull_client.transports.remoting.network.cluster import NAME_SERVER, Place, Target
from rmqpull_client.transports.remoting.network.connections import BrokerConnection, Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.exchange import Exchange
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand

MASTER = Target("orders", "broker-0")
ASK = RemotingCommand(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})


class Away:
    """An exchange whose servers refuse all connections, with a clock that only pauses move."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
        self.now_s = 0.0
        self.connection = Connection(name_servers="127.0.0.1:3", request_timeout_ms=1_000, **settings)
        self.place = Place("127.0.0.1:4", "broker-0")
        self.asked = 0
        monkeypatch.setattr(links, "wait_for", self._wait)

    def _wait(self, connections: Sequence[object], timeout_s: float) -> list[BrokerConnection]:
        self.now_s += timeout_s
        return []

    def encode(self, command: RemotingCommand, opaque: int, broker_name: str = "") -> bytes:
        return b""

    def find_places(self, target: Target, deadline_s: float) -> Sequence[Place]:
        return [self.place]

    def borrow(self, place: Place, attempt: int) -> BrokerConnection:
        self.asked += 1
        raise ConnectionLost(Cause.NOT_CONNECTED, "connection refused")

    def give_back(self, connection: BrokerConnection) -> None:
        raise AssertionError

    def note_lost(self, target: Target, place: Place, lost: ConnectionLost) -> None:
        pass

    def ask(self, target: Target = MASTER) -> str:
        with Exchange(self, lambda: self.now_s) as exchange, pytest.raises(BrokerUnavailable) as away:
            exchange.wait([exchange.start(target, ASK)])
        return str(away.value)


@pytest.mark.parametrize(
    ("place", "settings", "limit", "least_s", "most_s"),
    [
        (Place("127.0.0.1:4", "broker-0"), {"server_away_timeout_ms": 60_000}, "within 60000 ms", 58, 60),
        (Place("127.0.0.1:4", "broker-0"), {}, "within 1000 ms", 0, 1),
        (Place("127.0.0.1:4", "broker-0", is_given=True), {"server_away_timeout_ms": 60_000}, "within 1000 ms", 0, 1),
        (Place("127.0.0.1:3"), {"server_away_timeout_ms": 60_000}, "within 1000 ms", 0, 1),
        (
            Place("127.0.0.1:4", "broker-0"),
            {"server_away_timeout_ms": 60_000, "request_retries": 3},
            "in 4 tries",
            0,
            1,
        ),
    ],
)
def test_a_broker_that_a_route_names_is_waited_for_longer(
    monkeypatch: pytest.MonkeyPatch, place: Place, settings: dict[str, int], limit: str, least_s: int, most_s: int
) -> None:
    """An address that an option names is perhaps wrong, as long as no server has answered there."""
    away = Away(monkeypatch, **settings)
    away.place = place
    assert limit in away.ask(NAME_SERVER if place.is_name_server else MASTER)
    assert least_s <= away.now_s <= most_s, "by the clock of the test"
