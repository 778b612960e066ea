"""The broker's settings: one declaration each, from which the command line and the README's table are made."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.core.naming import check_topic_name
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.topics import QUEUES_MAX

BROKER_NAMES = ("broker-a",)

LOG_FORMATS = ("text", "json")
LOG_LEVELS = ("debug", "info", "warning", "error")

_DIGITS = re.compile(r"[0-9]{1,9}")


class SettingError(ValueError):
    """A setting has a value that it cannot have; the text says which, what was seen and what was expected."""


class Extensions(enum.Enum):
    """What is served beside the standard protocol."""

    COLUMNS = "columns"
    NONE = "none"


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


def parse_extensions(text: str) -> Extensions:
    """``columns`` or ``none``. Raises SettingError."""
    try:
        return Extensions(text)
    except ValueError:
        raise SettingError(f"{text!r} names no extensions: expected 'columns' or 'none'") from None


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
        "NAME",
        "columns",
        "'columns' serves rmqpull.v1 beside apache.rocketmq.v2, 'none' serves the standard protocol alone.",
        parse_extensions,
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
)


@dataclass(frozen=True)
class BrokerConfig:
    """What a broker is started with."""

    listen: Address
    topics: Sequence[TopicSpec] = ()
    data_dir: str | None = None
    extensions: Extensions = Extensions.COLUMNS
    broker_names: Sequence[str] = BROKER_NAMES
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
        values["listen"],
        topics,
        values["data_dir"],
        values["extensions"],
        metrics_listen=values["metrics_listen"],
        log_format=values["log_format"],
        log_level=values["log_level"],
    )
