"""The channels of one group."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.clients.members import ChannelTable, ClientChannel

ANN, BOB = (ClientChannel(f"connection of {name}", name) for name in ("ann", "bob"))


def test_a_new_channel_is_a_change_and_a_heartbeat_on_it_is_none() -> None:
    table = ChannelTable()
    assert [table.refresh(ANN, 0), table.refresh(ANN, 1), table.refresh(BOB, 2)] == [True, False, True]
    assert table.all() == (ANN, BOB)


def test_another_client_on_a_known_channel_replaces_the_first_and_is_no_change() -> None:
    table = ChannelTable()
    table.refresh(ANN, 0)
    successor = ClientChannel(ANN.channel_id, "eve")
    assert not table.refresh(successor, 1)
    assert table.all() == (successor,)


@pytest.mark.parametrize(("now_ms", "expired"), [(120_000, []), (120_001, [ANN]), (130_001, [ANN, BOB])])
def test_two_minutes_without_heartbeat_are_too_long(now_ms: int, expired: list[ClientChannel]) -> None:
    table = ChannelTable()
    table.refresh(ANN, 0)
    table.refresh(BOB, 10_000)
    assert table.remove_expired(now_ms) == expired
    assert set(table.all()) == {ANN, BOB} - set(expired)


def test_a_channel_is_removed_once() -> None:
    table = ChannelTable()
    table.refresh(ANN, 0)
    assert [table.remove(ANN.channel_id), table.remove(ANN.channel_id)] == [True, False]
    assert not table
