"""Times of options are parsed or refused."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.timestamps import format_timestamp, parse_consume_timestamp, parse_timestamp

NOON = 1_772_366_400_000


@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [
        ("1772366400000", NOON),
        ("0", 0),
        (" 12 ", 12),
        ("2026-03-01T12:00:00Z", NOON),
        ("2026-03-01T12:00:00", NOON),
        ("2026-03-01 12:00", NOON),
        ("2026-03-01t12:00:00z", NOON),
        ("2026-03-01T13:30:00+01:30", NOON),
        ("2026-03-01T13:30:00+0130", NOON),
        ("2026-03-01T04:00-08", NOON),
        ("2026-03-01", NOON - 12 * 3_600_000),
        ("2026-03-01T12:00:00.5Z", NOON + 500),
        ("2026-03-01T12:00:00,250Z", NOON + 250),
        ("2026-03-01T12:00:00.000001Z", NOON + 1),
        ("2026-03-01T12:00:00.999999999Z", NOON + 1000),
        ("1970-01-01", 0),
        ("9999-12-31T23:59:59.999Z", 253_402_300_799_999),
    ],
)
def test_a_time_is_iso_8601_or_milliseconds(text: str, timestamp_ms: int) -> None:
    assert parse_timestamp(text) == timestamp_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "-1",
        "1.5",
        "1969-12-31T23:59:59Z",
        "253402300800000",
        "10000-01-01",
        "9999-12-31T23:59:59.9999Z",
        "2026-02-30",
        "2026-13-01",
        "2026-03-01T25:00",
        "2026-03-01T12",
        "2026-03-01T12:00Europe/Berlin",
        "2026-03-01T12:00+99",
        "01.03.2026",
        "\u0661",
    ],
)
def test_an_invalid_time_is_refused_with_two_examples(text: str) -> None:
    with pytest.raises(ValueError, match="such as 2026-03-01T12:00:00Z, or in milliseconds such as 1772366400000"):
        parse_timestamp(text)


@given(st.integers(0, 253_402_300_799_999))
def test_a_formatted_time_is_parsed_as_the_same_time(timestamp_ms: int) -> None:
    assert parse_timestamp(format_timestamp(timestamp_ms)) == timestamp_ms


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine five hours behind UTC in winter."""
    with monkeypatch.context() as environment:
        environment.setenv("TZ", "EST5EDT")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    ("text", "timestamp_ms"),
    [("20260301070000", NOON), ("2026-03-01T12:00:00Z", NOON), ("1772366400000", NOON)],
)
def test_rocketmq_s_format_is_in_the_local_time_zone(text: str, timestamp_ms: int) -> None:
    assert parse_consume_timestamp(text) == timestamp_ms


@pytest.mark.parametrize("text", ["20261301070000", "00000000000000", "19691231000000", "yesterday"])
def test_an_invalid_consume_timestamp_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=r"^(It is not a valid time of the form yyyyMMddHHmmss|Expected a time since 1970)"
    ):
        parse_consume_timestamp(text)
