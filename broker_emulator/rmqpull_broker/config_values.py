"""The values of the broker's settings: their types, and the functions that parse them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from rmqpull_broker.core.admin.admin_peers import AdminPeers, parse_admin_peers
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.limits import QUEUES_MAX
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.core.near_names import suggest
from rmqpull_broker.core.properties import list_declared
from rmqpull_broker.core.state.names import check_topic_name

BROKER_NAMES = ("broker-a",)

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
BROKERS_MAX = 64
TLS_MODES = ("permissive", "enforcing")
"""Like ``tls.server.mode`` of Apache's servers: whether connections without TLS are served too."""

_DIGITS = re.compile(r"[0-9]{1,9}")
_BROKER_NAME = re.compile(r"[A-Za-z0-9_@-]{1,127}")
_SIZE = re.compile(r"([0-9]{1,12})([KMGT]?)")


class SettingError(ValueError):
    """A setting has an invalid value. The text names the setting, the value and what is expected."""


EXTENSIONS = ("columns", "admin", "stages")
"""The services of ``rmqpull.v1``, by the names that DescribeServer uses."""


class ClockSpec(NamedTuple):
    """The broker's clock: the system's, or a manual one that starts at ``start_ms`` (None: now)."""

    is_manual: bool = False
    start_ms: int | None = None


SYSTEM_CLOCK = ClockSpec()


class Address(NamedTuple):
    """An address to listen on; port 0 is any free one."""

    host: str
    port: int


class TopicSpec(NamedTuple):
    """A topic to create."""

    name: str
    queue_count: int
    topic_type: TopicType


def parse_address(text: str) -> Address:
    """Parses ``HOST:PORT``, with an IPv6 host in brackets. Raises SettingError."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not (colon and host and _DIGITS.fullmatch(port) and int(port) <= 65_535):
        raise SettingError(
            f"{text!r} is not an address: use HOST:PORT with a port of 0 to 65535, such as 127.0.0.1:8081"
        )
    return Address(host, int(port))


def parse_addresses(text: str) -> tuple[Address, ...]:
    """Parses addresses that are separated by commas. Raises SettingError."""
    return tuple(parse_address(part.strip()) for part in text.split(","))


def parse_advertised(text: str) -> tuple[Address, ...]:
    """Parses addresses that are separated by commas. Refuses port 0. Raises SettingError."""
    addresses = parse_addresses(text)
    if any(address.port == 0 for address in addresses):
        raise SettingError(f"{text!r} has port 0: name the ports that clients connect to")
    return addresses


def parse_file(text: str) -> str:
    """Parses the name of a file. Raises SettingError for an empty name."""
    if not text.strip() or "\0" in text:
        raise SettingError(f"{text!r} is not a file")
    return text


def parse_switch(text: str) -> bool:
    """Parses ``true`` or ``false``, in upper or lower case. Raises SettingError."""
    if text.lower() not in ("true", "false"):
        raise SettingError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def parse_tls_mode(text: str) -> str:
    """Parses one of TLS_MODES. Raises SettingError."""
    if text not in TLS_MODES:
        raise SettingError(f"{text!r} is not a TLS mode: use {' or '.join(TLS_MODES)}")
    return text


def parse_topic(text: str) -> TopicSpec:
    """Parses ``NAME:QUEUES[:TYPE]``. Raises SettingError."""
    name, *rest = text.split(":")
    if not 1 <= len(rest) <= 2 or not _DIGITS.fullmatch(rest[0]):
        raise SettingError(f"{text!r} is not a topic: use NAME:QUEUES or NAME:QUEUES:TYPE, such as orders:8:FIFO")
    queue_count = int(rest[0])
    if not 1 <= queue_count <= QUEUES_MAX:
        raise SettingError(f"topic {name!r} has {queue_count} queues: use 1 to {QUEUES_MAX}")
    try:
        check_topic_name(name)
        topic_type = TopicType[rest[1].upper()] if len(rest) == 2 else TopicType.NORMAL
    except BrokerError as error:
        raise SettingError(f"topic {name!r} has an illegal name: {error}") from None
    except KeyError:
        types = ", ".join(topic_type.value for topic_type in TopicType)
        raise SettingError(f"topic {name!r} has the unknown type {rest[1]!r}: use one of {types}") from None
    return TopicSpec(name, queue_count, topic_type)


def parse_data_dir(text: str) -> str:
    """Parses the name of a directory. Raises SettingError for an empty name, as an unset shell variable gives."""
    if not text.strip() or "\0" in text:
        raise SettingError(f"{text!r} is not a directory: leave the setting out to store messages in memory only")
    return text


def parse_extensions(text: str) -> frozenset[str]:
    """Parses some of ``columns,admin,stages``, or ``none``. Raises SettingError."""
    names = frozenset(text.split(","))
    if names == {"none"}:
        return frozenset()
    if not names <= set(EXTENSIONS):
        raise SettingError(f"{text!r} has unknown extensions: use some of '{','.join(EXTENSIONS)}', or 'none'")
    return names


def parse_admin_from(text: str) -> AdminPeers:
    """Parses addresses and networks, ``loopback``, ``all`` or ``none``. Raises SettingError."""
    try:
        return parse_admin_peers(text)
    except ValueError as error:
        raise SettingError(
            f"{error}; use addresses such as 10.1.2.3 or 10.0.0.0/8 with commas between them, 'loopback', 'all', or "
            "'none' alone"
        ) from None


def parse_brokers(text: str) -> tuple[str, ...]:
    """Parses names of logical brokers, separated by commas. Raises SettingError."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _BROKER_NAME.fullmatch(name):
            raise SettingError(f"{name!r} is not a broker name: use letters, digits, '-', '_' and '@'")
        if names.count(name) > 1:
            raise SettingError(f"broker {name!r} is given {names.count(name)} times: give it once")
    if len(names) > BROKERS_MAX:
        raise SettingError(f"{len(names)} brokers are above the max {BROKERS_MAX}")
    return names


def parse_clock(text: str) -> ClockSpec:
    """Parses ``system``, ``manual`` or ``manual:TIME``: ISO 8601, UTC without an offset. Raises SettingError."""
    kind, colon, start = text.partition(":")
    if kind == "system" and not colon:
        return SYSTEM_CLOCK
    if kind != "manual":
        raise SettingError(f"{text!r} is not a clock: use system, manual, or manual:2013-01-31T12:00:00Z")
    if not colon:
        return ClockSpec(is_manual=True)
    try:
        # Before Python 3.11, fromisoformat refuses Z.
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", start))
    except ValueError:
        raise SettingError(f"{start!r} is not a time: use ISO 8601, such as 2013-01-31T12:00:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    start_ms = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    if start_ms < 0:
        raise SettingError(f"{start!r} is before 1970, and store times cannot be")
    return ClockSpec(is_manual=True, start_ms=start_ms)


def parse_size(text: str) -> int:
    """Parses a number of bytes: ``1073741824``, ``512M``, ``10G``. Raises SettingError."""
    if not (match := _SIZE.fullmatch(text)) or not int(match[1]):
        raise SettingError(f"{text!r} is not a size: use a number of bytes above 0, or with K, M, G or T, such as 10G")
    return int(match[1]) << 10 * " KMGT".index(match[2] or " ")


def parse_property(text: str) -> tuple[str, bool | int | str]:
    """Parses ``NAME=VALUE`` for a property of Apache's broker. Returns the field and its value.

    Raises SettingError, with a similar name for an unknown property.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"{text!r} is not a property: use NAME=VALUE, such as fileReservedTime=48")
    known = {prop.name: prop for prop in list_declared()}
    if name not in known:
        raise SettingError(f"unknown property {name!r}{suggest(name, known)}")
    prop = known[name]
    try:
        return prop.field, prop.parse(value)
    except ValueError as error:
        raise SettingError(str(error)) from None


def parse_log_format(text: str) -> str:
    """Parses ``text`` or ``json``. Raises SettingError."""
    if text not in LOG_FORMATS:
        raise SettingError(f"{text!r} is not a log format: use 'text' or 'json'")
    return text


def parse_log_level(text: str) -> str:
    """Parses one of LOG_LEVELS, in upper or lower case. Raises SettingError."""
    if text.lower() not in LOG_LEVELS:
        raise SettingError(f"{text!r} is not a log level: use one of {', '.join(LOG_LEVELS)}")
    return text.lower()
