"""Parses times: ISO 8601, milliseconds since the epoch, and RocketMQ's format of ``consumeTimestamp``."""

from __future__ import annotations

import datetime
import re

TIME_EXPECTED = "Expected a time since 1970 such as 2026-03-01T12:00:00Z, or in milliseconds such as 1772366400000."
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)
_MS_MAX = 253_402_300_799_999  # the end of the year 9999, which is the latest time of Python and protobuf
_ISO_8601 = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[Tt ](\d\d:\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?(?:([Zz])|([+-]\d\d)(?::?(\d\d))?)?)?", re.ASCII
)


def parse_timestamp(text: str) -> int:
    """Returns milliseconds since the epoch, rounded up.

    Without a time zone the time is UTC, and a date stands for its midnight. Raises ValueError.
    """
    text = text.strip()
    if re.fullmatch("[0-9]{1,15}", text):
        return _check_range(int(text))
    match = _ISO_8601.fullmatch(text)
    if match is None:
        raise ValueError(TIME_EXPECTED)
    date, minutes, seconds, fraction, _, zone_hours, zone_minutes = match.groups()
    try:
        time = datetime.datetime.fromisoformat(
            f"{date}T{minutes or '00:00'}:{seconds or '00'}{zone_hours or '+00'}:{zone_minutes or '00'}"
        )
    except ValueError as error:
        raise ValueError(f"It is not a valid time ({error}). {TIME_EXPECTED}") from None
    parts_ms = -(-int((fraction or "0").ljust(9, "0")) // 1_000_000)
    return _check_range((time - _EPOCH) // datetime.timedelta(milliseconds=1) + parts_ms)


def parse_consume_timestamp(text: str) -> int:
    """Returns milliseconds since the epoch for RocketMQ's ``yyyyMMddHHmmss`` in the local time zone (rules 1.2.1).

    Other text is parsed by :func:`parse_timestamp`. Raises ValueError.
    """
    text = text.strip()
    if not re.fullmatch("[0-9]{14}", text):
        return parse_timestamp(text)
    try:
        local = datetime.datetime.strptime(text, "%Y%m%d%H%M%S").astimezone()
    except (ValueError, OverflowError) as error:
        raise ValueError(f"It is not a valid time of the form yyyyMMddHHmmss ({error}).") from None
    return _check_range((local - _EPOCH) // datetime.timedelta(milliseconds=1))


def format_timestamp(timestamp_ms: int) -> str:
    """Returns a time as ISO 8601 text, in UTC. One outside the years 1 to 9999 stays a number."""
    try:
        time = _EPOCH + datetime.timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _check_range(timestamp_ms: int) -> int:
    if not 0 <= timestamp_ms <= _MS_MAX:
        raise ValueError(TIME_EXPECTED)
    return timestamp_ms
