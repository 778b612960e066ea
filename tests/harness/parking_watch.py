"""Tells when pulls are parked and when they leave: tests wait for that, not for time to pass."""

from __future__ import annotations

import queue

import pytest

from rmqpull_broker.core.pulling.parking import ParkedPull, ParkedPulls

WAIT_S = 60


class ParkingWatch:
    """The pulls that were parked (``entered``), and those that are parked no longer (``left``)."""

    def __init__(self) -> None:
        self.entered: queue.Queue[ParkedPull] = queue.Queue()
        self.left: queue.Queue[ParkedPull] = queue.Queue()

    def await_parked(self) -> ParkedPull:
        return self.entered.get(timeout=WAIT_S)

    def await_left(self) -> ParkedPull:
        return self.left.get(timeout=WAIT_S)


def watch_parking(monkeypatch: pytest.MonkeyPatch) -> ParkingWatch:
    """Watches all brokers in this process until the test ends."""
    watch = ParkingWatch()
    park, remove = ParkedPulls.park, ParkedPulls.remove

    def park_and_report(parked: ParkedPulls, pull: ParkedPull, now_ms: int) -> int:
        ticket = park(parked, pull, now_ms)
        watch.entered.put(pull)
        return ticket

    def remove_and_report(parked: ParkedPulls, ticket: int) -> None:
        pull = parked._pulls.get(ticket)
        remove(parked, ticket)
        if pull is not None:
            watch.left.put(pull)

    monkeypatch.setattr(ParkedPulls, "park", park_and_report)
    monkeypatch.setattr(ParkedPulls, "remove", remove_and_report)
    return watch
