"""The values of flags."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.server.times import format_time
from rmqpull_client.cli.values import (
    QueueName,
    parse_duration_ms,
    parse_endpoints,
    parse_pair,
    parse_queue,
    parse_seconds,
    parse_time_ms,
)

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999  # the years 1 to 9999


@pytest.mark.parametrize(
    ("text", "ms"),
    [("1ms", 1), ("2s", 2_000), ("1.5m", 90_000), ("1h30m", 5_400_000), ("1d12h", 129_600_000), ("0s", 0)],
)
def test_a_duration_is_numbers_with_units(text: str, ms: int) -> None:
    assert parse_duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", "1", "s", "-1s", "1 s", "1w", "1s2", "1e3s", "9" * 40 + "s"])
def test_a_bad_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: use numbers with ms, s, m, h or d, such as 90s or 1h30m"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1970-01-01T00:00:01Z", 1_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01 00:00:01.250", 1_250),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1970-01-02", 86_400_000),
        ("1970-01-01#00:00:01:250", 1_250),
        ("1250", 1_250),
        ("-1", -1),
    ],
)
def test_a_time_is_iso_8601_or_milliseconds(text: str, ms: int) -> None:
    assert parse_time_ms(text) == ms


@pytest.mark.parametrize("text", ["", "noon", "2013-13-01", "1970-01-01T00:00:60Z", "9" * 16])
def test_a_bad_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: use ISO 8601, such as 2013-01-31T12:00:00Z, or milliseconds"):
        parse_time_ms(text)


@given(st.integers(FIRST_MS, LAST_MS))
def test_a_printed_time_can_be_parsed(timestamp_ms: int) -> None:
    assert parse_time_ms(format_time(timestamp_ms)) == timestamp_ms


@pytest.mark.parametrize("timestamp_ms", [FIRST_MS - 1, LAST_MS + 1, 1 << 62])
def test_a_time_outside_the_calendar_is_printed_as_a_number(timestamp_ms: int) -> None:
    assert format_time(timestamp_ms) == str(timestamp_ms)


def test_a_queue_is_an_id_with_or_without_its_broker() -> None:
    assert parse_queue("3") == QueueName(None, 3)
    assert parse_queue("broker-a/3") == QueueName("broker-a", 3)
    for text in ("", "a", "broker-a/", "broker-a/x", "-1"):
        with pytest.raises(ValueError, match="is not a queue: use ID or BROKER/ID"):
            parse_queue(text)


def test_a_pair_is_split_at_its_first_sign() -> None:
    assert parse_pair("a=b=c") == ("a", "b=c")
    assert parse_pair("a=") == ("a", "")
    for text in ("", "a", "=b"):
        with pytest.raises(ValueError, match="is not of the form NAME=VALUE"):
            parse_pair(text)


@pytest.mark.parametrize("text", ["127.0.0.1:1", "localhost:65535", "[::1]:8081"])
def test_endpoints_are_host_and_port(text: str) -> None:
    assert parse_endpoints(text) == text


@pytest.mark.parametrize("text", ["", "h", ":1", "h:0", "h:65536", "h:x", "http://h"])
def test_bad_endpoints_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address: use HOST:PORT"):
        parse_endpoints(text)


def test_seconds_are_above_zero_and_below_a_day() -> None:
    assert (parse_seconds("2.5"), parse_seconds("86400")) == (2.5, 86_400)
    for text in ("0", "-1", "x", "1e9", "86401", "nan"):
        with pytest.raises(ValueError, match="is not a number of seconds"):
            parse_seconds(text)
