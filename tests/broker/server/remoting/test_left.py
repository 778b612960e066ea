"""Clients that leave while nobody reads from their connections."""

from __future__ import annotations

import select

import pytest

from rmqpull_broker.server.remoting.left import Departure, find_leaving, list_left
from tests.harness.leaving_clients import LEAVE, connected_ends

pytestmark = pytest.mark.skipif(not hasattr(select, "POLLRDHUP"), reason="only Linux tells it")


@pytest.mark.parametrize("how", LEAVE)
def test_how_a_client_has_left_is_known_although_something_is_unread(how: str) -> None:
    leave, expected = LEAVE[how]
    with connected_ends() as (client, accepted):
        client.sendall(b"unread")
        leave(client)
        assert find_leaving(accepted) is expected
        assert list_left([accepted]) == ([] if expected is Departure.NOTHING else [accepted])


def test_of_a_closed_socket_nothing_is_told() -> None:
    with connected_ends() as (_, accepted):
        accepted.close()
        assert find_leaving(accepted) is Departure.NOTHING
        assert list_left([accepted]) == []
