"""Which connection gives way when too many have not said what they are."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.clients import handshakes
from rmqpull_broker.core.clients.handshakes import Handshakes


@pytest.fixture(autouse=True)
def _at_most_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshakes, "HANDSHAKES_MAX", 4)


def test_the_oldest_of_the_address_that_has_most_gives_way() -> None:
    waiting = Handshakes[str]()
    assert [waiting.add(key, key[0]) for key in ("a1", "b1", "b2", "b3")] == [None] * 4
    assert [waiting.add(key, key[0]) for key in ("a2", "b4", "a3")] == ["b1", "a1", "b2"]
    assert len(waiting) == 4


def test_a_lone_address_gives_way_to_itself() -> None:
    waiting = Handshakes[int]()
    assert [waiting.add(key, "a") for key in range(6)] == [None, None, None, None, 0, 1]


def test_those_that_have_said_what_they_are_leave_room() -> None:
    waiting = Handshakes[int]()
    for key in range(4):
        waiting.add(key, "a")
    for key in (1, 1, 9):
        waiting.remove(key)
    assert len(waiting) == 3
    assert [waiting.add(4, "b"), waiting.add(5, "b")] == [None, 0]
