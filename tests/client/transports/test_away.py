"""Which servers have answered, and how long a request waits for them."""

from __future__ import annotations

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.transports.away import ADDRESSES_MAX, AnsweredServers, TimeLimit, WaitLog


def test_a_process_remembers_who_has_answered() -> None:
    answered = AnsweredServers()
    answered.add("10.0.0.1:10911")
    answered.update(["10.0.0.2:10911", "10.0.0.1:10911"])
    assert answered.list() == ("10.0.0.1:10911", "10.0.0.2:10911")
    assert "10.0.0.2:10911" in answered
    assert "10.0.0.3:10911" not in answered


def test_the_oldest_address_is_forgotten_when_there_are_too_many() -> None:
    answered = AnsweredServers()
    answered.update(map(str, range(ADDRESSES_MAX + 1)))
    assert len(answered.list()) == ADDRESSES_MAX
    assert "0" not in answered
    assert str(ADDRESSES_MAX) in answered


def test_windows_follow_each_other_until_the_limit_for_servers_that_are_away() -> None:
    limit = TimeLimit.of(Connection(request_timeout_ms=10_000, server_away_timeout_ms=25_000), 100.0)
    assert limit.deadline_s == 110.0
    assert [(limit.extend(now_s), limit.deadline_s) for now_s in (110.0, 120.0, 125.0)] == [
        (True, 120.0),
        (True, 125.0),
        (False, 125.0),
    ]


@pytest.mark.parametrize("away_ms", [0, 5_000, 10_000])
def test_no_server_gets_less_time_than_a_request(away_ms: int) -> None:
    limit = TimeLimit.of(Connection(request_timeout_ms=10_000, server_away_timeout_ms=away_ms), 100.0)
    assert (limit.deadline_s, limit.extend(110.0)) == (110.0, False)


def test_time_in_which_nobody_watched_does_not_count() -> None:
    limit = TimeLimit.of(Connection(request_timeout_ms=10_000, server_away_timeout_ms=20_000), 100.0)
    limit.shift(1_000.0)
    assert (limit.deadline_s, limit.extend(1_119.0), limit.deadline_s) == (1_110.0, True, 1_120.0)


def test_a_process_logs_one_line_every_ten_seconds_for_all_requests(caplog: pytest.LogCaptureFixture) -> None:
    """A hundred requests wait for a minute, and each is tried twice in a second."""
    now = [0.0]
    log = WaitLog(lambda: now[0])
    limit = TimeLimit.of(Connection(server_away_timeout_ms=300_000), 0.0)
    for tick in range(121):
        now[0] = tick / 2
        for _ in range(100):
            log.note(limit, now[0], "broker broker-a at 10.0.0.1:10911")
    assert [record.getMessage() for record in caplog.records] == [
        f"Waiting for broker broker-a at 10.0.0.1:10911: no response for {waited_s} s, of at most 300 s (option "
        "serverAwayTimeoutMs)."
        for waited_s in (10, 20, 30, 40, 50, 60)
    ]
