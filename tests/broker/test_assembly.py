"""A broker put together from its parts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rmqpull_broker.assembly import rising_clock_ms
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.testing import running_broker

FAR_MS = 32_503_680_000_000  # the year 3000


def test_the_clock_never_begins_before_what_is_stored_and_never_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rising_clock_ms(FAR_MS)() == FAR_MS
    clock_ms = rising_clock_ms(0)
    times_ns = iter([7_000_000, 5_000_000, 9_000_000])
    monkeypatch.setattr(time, "time_ns", lambda: next(times_ns))
    assert [clock_ms() for _ in range(3)] == [7, 7, 9]


def test_a_broker_that_could_not_start_lets_its_directory_go(tmp_path: Path) -> None:
    data_dir = str(tmp_path)
    with running_broker({"orders": 8}, data_dir=data_dir):
        pass
    with pytest.raises(BrokerError, match="8 queues"), running_broker({"orders": 4}, data_dir=data_dir):
        pass
    with running_broker({"orders": 8}, data_dir=data_dir) as broker:
        assert broker.endpoints
