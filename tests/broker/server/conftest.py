"""A broker that serves in this process, and a view of its parked pulls."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from rmqpull_broker.core.holding import Holding, ParkedPull
from rmqpull_broker.testing import RunningBroker, running_broker

if TYPE_CHECKING:
    from tests.broker.conftest import Client, Connect

WAIT_S = 60


class Parkings:
    """Which pulls are parked and which have left: what a test waits for instead of letting time pass."""

    def __init__(self) -> None:
        self.entered: queue.Queue[ParkedPull] = queue.Queue()
        self.left: queue.Queue[ParkedPull] = queue.Queue()

    def await_parked(self) -> ParkedPull:
        return self.entered.get(timeout=WAIT_S)

    def await_left(self) -> ParkedPull:
        return self.left.get(timeout=WAIT_S)


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker(topics={"orders": 2, "single": 1}) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker, connect: Connect) -> Client:
    return connect(broker.endpoints)


@pytest.fixture
def parkings(monkeypatch: pytest.MonkeyPatch) -> Parkings:
    """Reports every pull that any broker of this process parks."""
    seen = Parkings()
    park, remove = Holding.park, Holding.remove

    def park_and_tell(holding: Holding, pull: ParkedPull, now_ms: int) -> int:
        ticket = park(holding, pull, now_ms)
        seen.entered.put(pull)
        return ticket

    def remove_and_tell(holding: Holding, ticket: int) -> None:
        pull = holding._pulls.get(ticket)
        remove(holding, ticket)
        if pull is not None:
            seen.left.put(pull)

    monkeypatch.setattr(Holding, "park", park_and_tell)
    monkeypatch.setattr(Holding, "remove", remove_and_tell)
    return seen
