"""The broker's settings: one declaration each, from which the command line and the README's table are made."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.limits import QUEUES_MAX
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.core.properties import BrokerProperties, explain_no_effect, list_declared
from rmqpull_broker.core.state.names import check_topic_name

BROKER_NAMES = ("broker-a",)

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")
BROKERS_MAX = 64

_DIGITS = re.compile(r"[0-9]{1,9}")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_BROKER_NAME = re.compile(r"[A-Za-z0-9_@-]{1,127}")
_SIZE = re.compile(r"([0-9]{1,12})([KMGT]?)")


class SettingError(ValueError):
    """A setting has a value that it cannot have; the text says which, what was seen and what was expected."""


EXTENSIONS = ("columns", "admin", "stages")
"""What can be served of ``rmqpull.v1``: its services by the names that DescribeServer tells."""


class ClockSpec(NamedTuple):
    """Whose time the broker has: the system's, or a manual clock's that begins at ``start_ms`` (None: now)."""

    is_manual: bool = False
    start_ms: int | None = None


SYSTEM_CLOCK = ClockSpec()


class Address(NamedTuple):
    """Where to listen; port 0 means any free one."""

    host: str
    port: int


class TopicSpec(NamedTuple):
    """A topic as it is asked for; it gets its creation id when it is created."""

    name: str
    queue_count: int
    topic_type: TopicType


def parse_address(text: str) -> Address:
    """``HOST:PORT``, an IPv6 host in brackets. Raises SettingError."""
    host, colon, port = text.rpartition(":")
    host = host.strip("[]")
    if not (colon and host and _DIGITS.fullmatch(port) and int(port) <= 65_535):
        raise SettingError(f"{text!r} is no address: expected HOST:PORT with a port of 0 to 65535, as 127.0.0.1:8081")
    return Address(host, int(port))


def parse_topic(text: str) -> TopicSpec:
    """``NAME:QUEUES[:TYPE]``. Raises SettingError."""
    name, *rest = text.split(":")
    if not 1 <= len(rest) <= 2 or not _DIGITS.fullmatch(rest[0]):
        raise SettingError(f"{text!r} is no topic: expected NAME:QUEUES or NAME:QUEUES:TYPE, as orders:8:FIFO")
    queue_count = int(rest[0])
    if not 1 <= queue_count <= QUEUES_MAX:
        raise SettingError(f"topic {name!r} asks for {queue_count} queues: expected 1 to {QUEUES_MAX}")
    try:
        check_topic_name(name)
        topic_type = TopicType[rest[1].upper()] if len(rest) == 2 else TopicType.NORMAL
    except BrokerError as error:
        raise SettingError(f"topic {name!r} has an illegal name: {error}") from None
    except KeyError:
        types = ", ".join(topic_type.value for topic_type in TopicType)
        raise SettingError(f"topic {name!r} has the unknown type {rest[1]!r}: expected one of {types}") from None
    return TopicSpec(name, queue_count, topic_type)


def parse_data_dir(text: str) -> str:
    """A directory's name. Raises SettingError for the empty one, which an unset shell variable gives."""
    if not text.strip() or "\0" in text:
        raise SettingError(f"{text!r} names no directory: leave the setting out to keep messages in memory alone")
    return text


def parse_extensions(text: str) -> frozenset[str]:
    """Some of ``columns,admin,stages``, or ``none``. Raises SettingError."""
    names = frozenset(text.split(","))
    if names == {"none"}:
        return frozenset()
    if not names <= set(EXTENSIONS):
        raise SettingError(f"{text!r} names no extensions: expected some of '{','.join(EXTENSIONS)}', or 'none'")
    return names


def parse_brokers(text: str) -> tuple[str, ...]:
    """Names of logical brokers, with commas between. Raises SettingError."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _BROKER_NAME.fullmatch(name):
            raise SettingError(f"{name!r} is no broker's name: expected letters, digits, '-', '_' and '@', as broker-a")
        if names.count(name) > 1:
            raise SettingError(f"broker {name!r} was given {names.count(name)} times: name it once")
    if len(names) > BROKERS_MAX:
        raise SettingError(f"{len(names)} brokers are too many: expected {BROKERS_MAX} at most")
    return names


def parse_clock(text: str) -> ClockSpec:
    """``system``, ``manual`` or ``manual:TIME``, the time in ISO 8601, UTC without an offset. Raises SettingError."""
    kind, colon, start = text.partition(":")
    if kind == "system" and not colon:
        return SYSTEM_CLOCK
    if kind != "manual":
        raise SettingError(f"{text!r} is no clock: expected system, manual, or manual:2013-01-31T12:00:00Z")
    if not colon:
        return ClockSpec(is_manual=True)
    try:
        # Before Python 3.11 the short form of UTC is not understood.
        moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", start))
    except ValueError:
        raise SettingError(f"{start!r} is no time to begin at: expected ISO 8601, as 2013-01-31T12:00:00Z") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    start_ms = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    if start_ms < 0:
        raise SettingError(f"{start!r} is before 1970: no message can be stored then")
    return ClockSpec(is_manual=True, start_ms=start_ms)


def parse_size(text: str) -> int:
    """A number of bytes: ``1073741824``, ``512M``, ``10G``. Raises SettingError."""
    if not (match := _SIZE.fullmatch(text)) or not int(match[1]):
        raise SettingError(f"{text!r} is no size: expected bytes above 0, also with K, M, G or T, as 10G")
    return int(match[1]) << 10 * " KMGT".index(match[2] or " ")


def parse_property(text: str) -> tuple[str, bool | int | str]:
    """``NAME=VALUE`` with the name of a property of Apache's broker; gives the field and its value.

    Raises SettingError, with the nearest name for one that no property has.
    """
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingError(f"{text!r} is no property: expected NAME=VALUE, as fileReservedTime=48")
    known = {prop.name: prop for prop in list_declared()}
    if name not in known:
        near = nearest(name, (prop.name for prop in known.values() if not prop.idle))
        raise SettingError(f"no property is called {name!r}" + (f". Did you mean {near!r}?" if near else ""))
    prop = known[name]
    if prop.idle:
        raise SettingError(f"property {explain_no_effect(name, prop.idle)}")
    parsed = _property_value(name, value, type(prop.default))
    try:
        prop.check(parsed)
    except ValueError as error:
        raise SettingError(str(error)) from None
    return prop.field, parsed


def check_properties(properties: BrokerProperties) -> None:
    """Raises SettingError for properties that change nothing on a running broker and are not at their default."""
    for prop in list_declared():
        if prop.idle and getattr(properties, prop.field) != prop.default:
            raise SettingError(f"property {explain_no_effect(prop.name, prop.idle)}")


def _property_value(name: str, text: str, kind: type) -> bool | int | str:
    if kind is bool:
        if text not in ("true", "false"):
            raise SettingError(f"property {name} is {text!r}: expected true or false")
        return text == "true"
    if kind is int:
        if not _NUMBER.fullmatch(text):
            raise SettingError(f"property {name} is {text!r}: expected a whole number")
        return int(text)
    if not text.strip():
        raise SettingError(f"property {name} is empty")
    return text


def nearest(name: str, known: Iterable[str], nearness: float = 0.6) -> str | None:
    """The one of the known names that ``name`` may have meant, of whatever case."""
    by_lower = {other.lower(): other for other in known}
    found = difflib.get_close_matches(name.lower(), by_lower, 1, nearness)
    return by_lower[found[0]] if found else None


def parse_log_format(text: str) -> str:
    """``text`` or ``json``. Raises SettingError."""
    if text not in LOG_FORMATS:
        raise SettingError(f"{text!r} is no log format: expected 'text' or 'json'")
    return text


def parse_log_level(text: str) -> str:
    """One of LOG_LEVELS, in any case. Raises SettingError."""
    if text.lower() not in LOG_LEVELS:
        raise SettingError(f"{text!r} is no log level: expected one of {', '.join(LOG_LEVELS)}")
    return text.lower()


@dataclass(frozen=True)
class Setting:
    """One setting: a flag's name without its dashes, how its value is written and read, and what it does."""

    name: str
    form: str
    default: str | None
    doc: str
    parse: Callable[[str], Any] = str
    is_repeated: bool = False

    @property
    def attribute(self) -> str:
        """The name of its value in Python."""
        return self.name.replace("-", "_")

    @property
    def default_value(self) -> Any:
        """What it is when no source gives it."""
        if self.is_repeated:
            return ()
        return None if self.default is None else self.parse(self.default)


PROPERTY = Setting(
    "property",
    "NAME=VALUE",
    None,
    "A property of Apache's broker under its own name; may be repeated.",
    parse_property,
    is_repeated=True,
)

SETTINGS = (
    Setting(
        "listen",
        "HOST:PORT",
        "127.0.0.1:8081",
        "Address to listen on; port 0 picks a free one, which the ready line names.",
        parse_address,
    ),
    Setting(
        "topic",
        "NAME:QUEUES[:TYPE]",
        None,
        "Topic to create unless it exists; may be repeated. TYPE is NORMAL (default), FIFO, DELAY or TRANSACTION.",
        parse_topic,
        is_repeated=True,
    ),
    Setting(
        "data-dir",
        "DIR",
        None,
        "Directory of the commit log, created when missing; without it, messages live in memory alone.",
        parse_data_dir,
    ),
    Setting(
        "extensions",
        "NAMES",
        ",".join(EXTENSIONS),
        "What is served of rmqpull.v1 beside apache.rocketmq.v2; 'none' serves the standard protocol alone.",
        parse_extensions,
    ),
    Setting(
        "brokers",
        "NAMES",
        ",".join(BROKER_NAMES),
        "Names of the logical brokers in this process, with commas between; each has queues of its own.",
        parse_brokers,
    ),
    Setting(
        "clock",
        "CLOCK",
        "system",
        "'manual' or 'manual:TIME' (ISO 8601) lets time stand still until a test or 'clock advance' moves it.",
        parse_clock,
    ),
    Setting(
        "retention-bytes",
        "SIZE",
        None,
        "The property retentionBytes, as 10G: size of the commit log above which its oldest segments are deleted.",
        parse_size,
    ),
    Setting(
        "metrics-listen",
        "HOST:PORT",
        None,
        "Address of a page /metrics for Prometheus; port 0 picks a free one, which the ready line names.",
        parse_address,
    ),
    Setting(
        "log-format",
        "FORMAT",
        "text",
        "Form of the log lines on standard error: 'text' for people, 'json' for machines, one object a line.",
        parse_log_format,
    ),
    Setting(
        "log-level",
        "LEVEL",
        "info",
        "What is logged: 'debug' logs every call, 'info', 'warning' or 'error' only what is worse.",
        parse_log_level,
    ),
    PROPERTY,
)


@dataclass(frozen=True)
class BrokerConfig:
    """What a broker is started with."""

    listen: Address
    topics: Sequence[TopicSpec] = ()
    data_dir: str | None = None
    extensions: frozenset[str] = frozenset(EXTENSIONS)
    broker_names: Sequence[str] = BROKER_NAMES
    clock: ClockSpec = SYSTEM_CLOCK
    properties: BrokerProperties = field(default_factory=BrokerProperties)
    metrics_listen: Address | None = None
    log_format: str = "text"
    log_level: str = "info"


def config_from(values: Mapping[str, Any]) -> BrokerConfig:
    """The configuration from parsed values by attribute name. Raises SettingError for a topic that is named twice."""
    topics: Sequence[TopicSpec] = values["topic"]
    names = [topic.name for topic in topics]
    for name in names:
        if names.count(name) > 1:
            raise SettingError(f"topic {name!r} was given {names.count(name)} times: name it once")
    return BrokerConfig(
        listen=values["listen"],
        topics=topics,
        data_dir=values["data_dir"],
        extensions=values["extensions"],
        broker_names=values["brokers"],
        clock=values["clock"],
        properties=_properties_from(values),
        metrics_listen=values["metrics_listen"],
        log_format=values["log_format"],
        log_level=values["log_level"],
    )


def _properties_from(values: Mapping[str, Any]) -> BrokerProperties:
    """The properties that are given; ``retention-bytes`` is one under a name of its own."""
    properties = dict(values["property"])
    if values["retention_bytes"] is not None:
        properties["retention_bytes"] = values["retention_bytes"]
    return BrokerProperties(**properties)
