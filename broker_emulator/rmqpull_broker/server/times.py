"""Formats times for people, in the log and on the command line."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def format_time(timestamp_ms: int) -> str:
    """Formats a time: ISO 8601 in UTC. One outside the years 1 to 9999 stays a number."""
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_length(length_ms: int) -> str:
    """Formats a duration as the command line takes it, such as ``1h30m``; below a second in ms."""
    seconds = length_ms // 1000
    parts = (seconds // 86_400, "d"), (seconds // 3_600 % 24, "h"), (seconds // 60 % 60, "m"), (seconds % 60, "s")
    return "".join(f"{number}{unit}" for number, unit in parts if number) or f"{length_ms}ms"
