"""Who produces, as stories (rules 3.7, 5.7)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.clients import registries
from rmqpull_broker.core.clients.members import ClientChannel
from rmqpull_broker.core.clients.registries import ProducerRegistry
from rmqpull_broker.core.errors import TooManyRequests

ANN, BOB, EVE = (ClientChannel(f"connection of {name}", name) for name in ("ann", "bob", "eve"))


@pytest.fixture
def registry() -> ProducerRegistry:
    made = ProducerRegistry()
    for member in (ANN, BOB, EVE):
        made.register("orders", member, 0)
    return made


def asked(registry: ProducerRegistry, times: int, *unreachable: ClientChannel) -> list[str | None]:
    found = [registry.next_producer("orders", lambda channel: channel not in unreachable) for _ in range(times)]
    return [None if channel is None else channel.client_id for channel in found]


def test_producers_are_asked_in_turn(registry: ProducerRegistry) -> None:
    turns = asked(registry, 6)
    assert sorted(turns[:3], key=str) == ["ann", "bob", "eve"]
    assert turns[3:] == turns[:3]


def test_one_that_cannot_be_reached_is_passed_over(registry: ProducerRegistry) -> None:
    assert set(asked(registry, 6, BOB)) == {"ann", "eve"}
    assert asked(registry, 2, ANN, BOB, EVE) == [None, None]


def test_another_topic_has_no_producers(registry: ProducerRegistry) -> None:
    assert registry.next_producer("clicks", lambda _: True) is None
    assert registry.channels("clicks") == ()
    assert registry.groups() == ["orders"]


def test_a_producer_leaves_one_group_and_its_connection_leaves_all(registry: ProducerRegistry) -> None:
    registry.register("clicks", ANN, 0)
    registry.unregister("orders", BOB.channel_id)
    registry.unregister("orders", BOB.channel_id)
    assert registry.channels("orders") == (ANN, EVE)
    registry.channel_closed(ANN.channel_id)
    assert registry.channels("orders") == (EVE,)
    assert registry.groups() == ["orders"]


def test_who_is_silent_for_two_minutes_is_removed(registry: ProducerRegistry) -> None:
    registry.register("orders", BOB, 1)
    registry.register("clicks", ANN, 0)
    assert registry.expire(120_000) == []
    assert registry.expire(120_001) == [ANN, EVE]
    assert registry.groups() == ["orders"]
    assert registry.channels("orders") == (BOB,)


def test_a_registry_has_a_limit_and_leaving_makes_room(
    registry: ProducerRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "REGISTRATIONS_MAX", 3)
    with pytest.raises(TooManyRequests, match="3 producers"):
        registry.register("clicks", ANN, 0)
    registry.register("orders", ANN, 1)
    registry.unregister("orders", BOB.channel_id)
    registry.register("clicks", ANN, 0)
    assert registry.groups() == ["clicks", "orders"]
