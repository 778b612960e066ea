"""The values of flags: addresses, times, durations and queues."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from rmqpull_client.connection import parse_addresses, parse_broker_addresses

if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]
else:
    _ParamType = click.ParamType  # before 8.4 it takes no parameter

ENDPOINTS_DEFAULT = "127.0.0.1:8081"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:[0-9]+(?:\.[0-9]+)?(?:ms|s|m|h|d))+")
_MQADMIN_TIME = re.compile(r"(\d{4}-\d\d-\d\d)#(\d\d:\d\d:\d\d):(\d{3})")
_MILLISECONDS = re.compile(r"-?[0-9]{1,15}")


class Parsed(_ParamType):
    """A value that a function parses. The text of its ValueError becomes the error message."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


def parse_endpoints(text: str) -> str:
    """Parses ``HOST:PORT``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not (colon and host.strip("[]") and re.fullmatch("[0-9]{1,5}", port) and 1 <= int(port) <= 65_535):
        raise ValueError(f"{text!r} is not an address: use HOST:PORT with a port of 1 to 65535, such as 127.0.0.1:8081")
    return text


def check_addresses(text: str) -> str:
    """Returns addresses ``HOST:PORT``, separated by semicolons, as they are. Raises ValueError for anything else."""
    parse_addresses(text)
    return text


def check_broker_addresses(text: str) -> str:
    """Returns addresses of brokers, ``BROKER=HOST:PORT``, as they are. Raises ValueError for anything else."""
    parse_broker_addresses(text)
    return text


def parse_seconds(text: str) -> float:
    """Parses a number of seconds, above 0 and up to a day. Raises ValueError."""
    if not re.fullmatch(r"[0-9]{1,5}(?:\.[0-9]+)?", text) or not 0 < float(text) <= 86_400:
        raise ValueError(f"{text!r} is not a number of seconds above 0 and up to 86400, such as 2.5")
    return float(text)


def parse_duration_ms(text: str) -> int:
    """Parses ``1h``, ``90s``, ``1d12h`` or ``500ms`` into milliseconds. Raises ValueError."""
    if not _DURATION.fullmatch(text) or len(text) > 30:
        raise ValueError(f"{text!r} is not a duration: use numbers with ms, s, m, h or d, such as 90s or 1h30m")
    parts = re.findall(r"([0-9.]+)(ms|s|m|h|d)", text)
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))


def parse_time_ms(text: str) -> int:
    """Parses a time into milliseconds since the epoch: ISO 8601 (UTC without an offset), milliseconds, ``now``, or
    mqadmin's ``2013-01-31#12:00:00:000``. Raises ValueError.
    """
    if text == "now":
        return time.time_ns() // 1_000_000
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    iso = _MQADMIN_TIME.sub(r"\1T\2.\3", text)
    try:
        # Before Python 3.11, fromisoformat refuses Z.
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", iso))
    except ValueError:
        raise ValueError(
            f"{text!r} is not a time: use ISO 8601, such as 2013-01-31T12:00:00Z, or milliseconds since the epoch"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return (moment - _EPOCH) // timedelta(milliseconds=1)


class QueueName(NamedTuple):
    """A queue of a topic, on one broker or (None) on any."""

    broker_name: str | None
    queue_id: int


def parse_queue(text: str) -> QueueName:
    """Parses ``3`` or ``broker-a/3``. Raises ValueError."""
    broker_name, _, queue_id = text.rpartition("/")
    if not re.fullmatch("[0-9]{1,9}", queue_id):
        raise ValueError(f"{text!r} is not a queue: use ID or BROKER/ID, such as 3 or broker-a/3")
    return QueueName(broker_name or None, int(queue_id))


def check_not_empty(text: str) -> str:
    """Returns a text as it is. Raises ValueError for an empty one."""
    if not text:
        raise ValueError("it is empty")
    return text


def parse_pair(text: str) -> tuple[str, str]:
    """Parses ``NAME=VALUE``. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not of the form NAME=VALUE")
    return name, value


class RetryPolicy(NamedTuple):
    """The delays of a retry policy, or, with a multiplier, the first and the longest one. No delays: the default."""

    delays_ms: tuple[int, ...]
    multiplier: float = 0


def parse_retry_policy(text: str) -> RetryPolicy:
    """Parses ``10s,30s,1m``, ``exponential:5s:2h:2`` or ``default``. Raises ValueError."""
    if text == "default":
        return RetryPolicy(())
    if not text.startswith("exponential:"):
        return RetryPolicy(tuple(map(parse_duration_ms, text.split(","))))
    parts = text.split(":")[1:]
    if len(parts) != 3 or not re.fullmatch(r"[0-9]{1,4}(?:\.[0-9]{1,6})?", parts[-1]) or not float(parts[-1]):
        raise ValueError(f"{text!r} is not of the form exponential:FIRST:LONGEST:FACTOR, such as exponential:5s:2h:2")
    return RetryPolicy((parse_duration_ms(parts[0]), parse_duration_ms(parts[1])), float(parts[2]))


def format_duration(duration_ms: int) -> str:
    """Formats a duration in the largest unit that leaves it whole, as :func:`parse_duration_ms` reads it."""
    units = sorted(((ms, unit) for unit, ms in _UNITS_MS.items() if unit != "d"), reverse=True)
    factor, unit = next((ms, unit) for ms, unit in units if duration_ms % ms == 0 and (duration_ms or unit == "s"))
    return f"{duration_ms // factor}{unit}"


ENDPOINTS = Parsed("endpoints", parse_endpoints)
ADDRESSES = Parsed("addresses", check_addresses)
BROKER_ADDRESSES = Parsed("addresses of brokers", check_broker_addresses)
SECONDS = Parsed("seconds", parse_seconds)
DURATION = Parsed("duration", parse_duration_ms)
TIME = Parsed("time", parse_time_ms)
QUEUE = Parsed("queue", parse_queue)
NOT_EMPTY = Parsed("text", check_not_empty)
ANY_BYTES = Parsed("text", os.fsencode)
PAIR = Parsed("pair", parse_pair)
RETRY_POLICY = Parsed("retry policy", parse_retry_policy)
