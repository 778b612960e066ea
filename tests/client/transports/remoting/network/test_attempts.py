"""What the attempts of a request have met becomes an exception that says what to do."""

from __future__ import annotations

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import (
    HandshakeFailed,
)
from rmqpull_client.transports.remoting.network.attempts import Attempts
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_client.transports.remoting.network.connections import Cause, ConnectionLost
from rmqpull_proto.remoting.command import RemotingCommand

BROKER, NAME_SERVER = Place("10.0.0.1:10911", "broker-a"), Place("10.0.0.9:9876")
PULL = RemotingCommand(11)


@pytest.mark.parametrize(
    ("place", "advice"),
    [
        (BROKER, r"The name server at 10\.0\.0\.9:9876 gave this address\. .*brokerAddresses .*broker-a=HOST:PORT\.$"),
        (
            BROKER._replace(is_given=True),
            r"Option brokerAddresses names this address: check that it is the broker's\.$",
        ),
    ],
)
def test_an_address_that_leads_to_another_server_names_who_told_it(place: Place, advice: str) -> None:
    attempts = Attempts(Connection(name_servers="10.0.0.9:9876"), Target("t", "broker-a"), PULL)
    attempts.add_lost(place, ConnectionLost(Cause.OTHER_PROTOCOL, "the bytes are HTTP", "HTTP"))
    with pytest.raises(HandshakeFailed, match=rf"broker broker-a at 10\.0\.0\.1:10911: .*speaks HTTP\. {advice}"):
        raise attempts.make_error()
