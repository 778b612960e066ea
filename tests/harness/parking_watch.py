"""Which pulls are parked: tests wait for that instead of letting time pass."""

from __future__ import annotations

import queue

import pytest

from rmqpull_broker.core.pulling.parking import ParkedPull, ParkedPulls

WAIT_S = 60


class ParkingWatch:
    """Which pulls are parked and which have left: what a test waits for instead of letting time pass."""

    def __init__(self) -> None:
        self.entered: queue.Queue[ParkedPull] = queue.Queue()
        self.left: queue.Queue[ParkedPull] = queue.Queue()

    def await_parked(self) -> ParkedPull:
        return self.entered.get(timeout=WAIT_S)

    def await_left(self) -> ParkedPull:
        return self.left.get(timeout=WAIT_S)


def watch_parking(monkeypatch: pytest.MonkeyPatch) -> ParkingWatch:
    """Reports every pull that any broker of this process parks."""
    seen = ParkingWatch()
    park, remove = ParkedPulls.park, ParkedPulls.remove

    def park_and_tell(holding: ParkedPulls, pull: ParkedPull, now_ms: int) -> int:
        ticket = park(holding, pull, now_ms)
        seen.entered.put(pull)
        return ticket

    def remove_and_tell(holding: ParkedPulls, ticket: int) -> None:
        pull = holding._pulls.get(ticket)
        remove(holding, ticket)
        if pull is not None:
            seen.left.put(pull)

    monkeypatch.setattr(ParkedPulls, "park", park_and_tell)
    monkeypatch.setattr(ParkedPulls, "remove", remove_and_tell)
    return seen
