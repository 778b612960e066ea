"""How often and how long a caller looks for servers that are away. Only pauses move the clock."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.transports.remoting.network.looks import make_looks


class Looking:
    """A caller that looks until the looks end, or until a time."""

    def __init__(self, first_look_s: float = 0.0, **settings: Any) -> None:
        self.now_s = 0.0
        self.times_s: list[float] = []
        connection = Connection(name_servers="127.0.0.1:1", request_timeout_ms=1_000, **settings)
        for _ in make_looks(connection, lambda: "the brokers", lambda: self.now_s, self._sleep):
            self.times_s.append(self.now_s)
            self.now_s += first_look_s if len(self.times_s) == 1 else 0.0

    def _sleep(self, seconds: float) -> None:
        assert seconds > 0.0
        self.now_s += seconds


@pytest.mark.parametrize(
    ("settings", "limit_s"),
    [
        ({"server_away_timeout_ms": 60_000}, 60.0),
        ({"server_away_timeout_ms": 60_000, "request_retry_interval_ms": 7_000}, 60.0),
        ({"server_away_timeout_ms": 500}, 1.0),
        ({}, 1.0),
    ],
)
def test_looks_follow_each_other_until_the_time_for_servers_that_are_away_is_over(
    settings: dict[str, int], limit_s: float
) -> None:
    looking = Looking(**settings)
    assert looking.times_s[0] == 0.0
    assert looking.times_s[-1] == pytest.approx(limit_s), "the last look is when the time is over"
    assert looking.now_s == pytest.approx(limit_s)


def test_a_first_look_that_waited_for_a_name_server_takes_no_time_from_the_others() -> None:
    looking = Looking(first_look_s=3_600.0, server_away_timeout_ms=60_000)
    assert looking.times_s[-1] == pytest.approx(3_660.0)


@pytest.mark.parametrize(("retries", "looks"), [(0, 1), (3, 4)])
def test_the_permitted_retries_end_the_looks(retries: int, looks: int) -> None:
    assert len(Looking(server_away_timeout_ms=60_000, request_retries=retries).times_s) == looks


def test_the_first_look_waits_for_nobody() -> None:
    connection = Connection(name_servers="127.0.0.1:1")
    next(make_looks(connection, lambda: pytest.fail("named"), lambda: 0.0, lambda _: pytest.fail("slept")))
