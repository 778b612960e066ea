"""The broker's properties under Apache's names and with its defaults (rules 3.9.5): one declaration each.

A field in snake_case is Apache's camelCase name: ``auto_create_topic_enable`` is ``autoCreateTopicEnable``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

from rmqpull_broker.core.limits import QUEUES_MAX, TIMES_MS
from rmqpull_broker.core.model import PERM_READ, PERM_WRITE

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_LEVEL_MS_MAX = 3_650 * 86_400_000

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_NAME_LENGTH_MAX = 100
_INT_MAX = (1 << 31) - 1


def parse_level_delays(levels: str) -> list[int]:
    """Returns the delay of each level, starting with level 1. Raises ValueError for a text that is not like ``1s 5m
    2h``."""
    delays = [_delay_ms(level) for level in levels.split()]
    if not 1 <= len(delays) <= QUEUES_MAX:
        raise ValueError(f"there are {len(delays)} delays: expected 1 to {QUEUES_MAX}")
    return delays


def _delay_ms(level: str) -> int:
    form = _DURATION.fullmatch(level)
    if form is None:
        raise ValueError(f"{level!r} is not a delay: expected a number and one of s, m, h, d, such as 30s")
    delay_ms = int(form[1]) * _UNITS_MS[form[2]]
    if delay_ms > _LEVEL_MS_MAX:
        raise ValueError(f"the delay {level!r} is too long: the max is ten years, 3650d")
    return delay_ms


def _check_name(text: str) -> None:
    if not (text.strip() and text.isprintable() and len(text) <= _NAME_LENGTH_MAX):
        raise ValueError(f"expected 1 to {_NAME_LENGTH_MAX} printable characters")


def _check_flush(text: str) -> None:
    if text not in ("SYNC_FLUSH", "ASYNC_FLUSH"):
        raise ValueError("expected SYNC_FLUSH or ASYNC_FLUSH")


def _property(
    default: Any,
    unit: str,
    doc: str,
    *,
    least: int = 0,
    most: int = _INT_MAX,
    check: Callable[[str], object] = str,
    deviation: str = "",
    is_fixed: bool = False,
) -> Any:
    """Declares a property. A number is between ``least`` and ``most``.

    ``check`` raises ValueError for an invalid text. ``is_fixed``: the broker reads the property when it starts, so it
    cannot change later.
    """
    checks = {"least": least, "most": most, "check": check, "is_fixed": is_fixed}
    return field(default=default, metadata={"unit": unit, "doc": doc, "deviation": deviation, **checks})


@dataclass(frozen=True)
class BrokerProperties:
    """The properties of Apache's ``broker.conf`` that clients can notice.

    Raises ValueError for a value that a property cannot have.
    """

    broker_cluster_name: str = _property(
        "DefaultCluster", "name", "Name of the cluster.", check=_check_name, is_fixed=True
    )
    broker_permission: int = _property(
        PERM_READ | PERM_WRITE, "bits", "Permissions of the broker: 4 read, 2 write.", most=7
    )
    auto_create_topic_enable: bool = _property(
        True,
        "",
        "Whether `PublishColumns` may create its topic if its `default_topic` is `TBW102`. Other sends never create "
        "topics: `SendMessage` to an unknown topic gets MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, as from Apache's proxy.",
    )
    auto_create_subscription_group: bool = _property(True, "", "Whether a pull or a heartbeat may create its group.")
    default_topic_queue_nums: int = _property(
        8,
        "queues",
        "Queues of TBW102, and the most queues of a topic that a send creates.",
        least=1,
        most=QUEUES_MAX,
        is_fixed=True,
    )
    enable_mixed_message_type: bool = _property(False, "", "Whether topics of type MIXED can be created.")
    enable_property_filter: bool = _property(
        True, "", "Whether SQL92 filter expressions are supported.", deviation="Apache's default is false"
    )
    priority_order_asc: bool = _property(
        True,
        "",
        "Whether pops of a topic of type PRIORITY begin with the last queue; otherwise with queue 0. Pops of other "
        "topics go in the same direction, from a random queue.",
    )
    lite_pull_message_enable: bool = _property(True, "", "Whether pulls of lite pull consumers are served.")
    reject_pull_consumer_enable: bool = _property(False, "", "Whether pulls of unregistered consumers are refused.")
    long_polling_enable: bool = _property(
        True, "", "Whether a pull without messages parks for the time that it requests.", is_fixed=True
    )
    short_polling_time_mills: int = _property(
        1_000, "ms", "How long a pull parks if longPollingEnable is off.", least=1, is_fixed=True
    )
    use_server_side_reset_offset: bool = _property(True, "", "Whether the next pull after a reset gets OFFSET_RESET.")
    notify_consumer_ids_changed_enable: bool = _property(
        True,
        "",
        "Whether members that speak the remoting protocol are notified when others join or leave.",
        is_fixed=True,
    )
    start_accept_send_request_time_stamp: int = _property(
        0, "ms", "Time since 1970; earlier sends are refused.", most=TIMES_MS[1]
    )
    max_message_size: int = _property(4_194_304, "bytes", "Largest body of a message.", least=1)
    message_delay_level: str = _property(
        DELAY_LEVELS,
        "durations",
        "Delays of the levels, starting with level 1.",
        check=parse_level_delays,
        is_fixed=True,
    )
    timer_wheel_enable: bool = _property(
        True, "", "Whether messages may have a delivery time, and not only a delay level.", is_fixed=True
    )
    timer_max_delay_sec: int = _property(
        259_200, "s", "Longest delay until a delivery time. For sends, the proxy's limit of one day is lower."
    )
    recall_message_enable: bool = _property(
        True, "", "Whether delayed messages can be recalled.", deviation="Apache's default is false"
    )
    reject_transaction_message: bool = _property(False, "", "Whether half messages are refused.")
    transaction_time_out: int = _property(6_000, "ms", "Age of a half message at its first check.")
    transaction_check_interval: int = _property(30_000, "ms", "Time between two checks of half messages.", least=1)
    transaction_check_max: int = _property(
        15, "checks", "Number of checks after which the broker gives up a half message."
    )
    region_id: str = _property(
        "DefaultRegion", "name", "Region in the properties of stored messages.", check=_check_name, is_fixed=True
    )
    trace_on: bool = _property(
        True, "", "Whether the properties of stored messages request message traces.", is_fixed=True
    )
    flush_disk_type: str = _property(
        "SYNC_FLUSH",
        "",
        "SYNC_FLUSH acknowledges a send after its sync to disk, ASYNC_FLUSH after the write.",
        check=_check_flush,
        deviation="Apache's default is ASYNC_FLUSH",
        is_fixed=True,
    )
    flush_interval_commit_log: int = _property(
        500, "ms", "Time between two syncs of ASYNC_FLUSH.", least=1, is_fixed=True
    )
    mapped_file_size_commit_log: int = _property(
        1 << 30, "bytes", "Size of a segment of the commit log.", least=1, most=1 << 40, is_fixed=True
    )
    file_reserved_time: int = _property(72, "hours", "Age at which a segment of the commit log is deleted.")
    retention_bytes: int = _property(
        0,
        "bytes",
        "Max size of the commit log; the oldest segments above it are deleted. 0 means no limit.",
        most=(1 << 63) - 1,
        deviation="Apache's broker has no such property",
    )

    def __post_init__(self) -> None:
        for prop in list_declared():
            prop.check(getattr(self, prop.field))


class Declared(NamedTuple):
    """The declaration of one property."""

    name: str
    field: str
    default: bool | int | str
    unit: str
    doc: str
    deviation: str
    least: int
    most: int
    check_text: Callable[[str], object]
    is_fixed: bool

    def parse(self, text: str) -> bool | int | str:
        """Returns the value that a text stands for. Raises ValueError."""
        value: bool | int | str = text
        if isinstance(self.default, bool):
            if text not in ("true", "false"):
                raise ValueError(f"property {self.name} is {text!r}: use true or false")
            value = text == "true"
        elif isinstance(self.default, int):
            if not _NUMBER.fullmatch(text):
                raise ValueError(f"property {self.name} is {text!r}: use an integer")
            value = int(text)
        elif not text.strip():
            raise ValueError(f"property {self.name} is empty")
        self.check(value)
        return value

    def check(self, value: bool | int | str) -> None:
        """Raises ValueError for a value that the property cannot have."""
        if isinstance(value, str):
            try:
                self.check_text(value)
            except ValueError as error:
                raise ValueError(f"property {self.name} is {value!r}: {error}") from None
        elif not (isinstance(value, bool) or self.least <= value <= self.most):
            raise ValueError(f"property {self.name} is {value}: expected {self.least} to {self.most}")


_DECLARED = ("unit", "doc", "deviation", "least", "most", "check", "is_fixed")


def list_declared() -> list[Declared]:
    """Returns all properties, in the order of their declaration."""
    return [
        Declared(_camel_case(f.name), f.name, f.default, *map(f.metadata.__getitem__, _DECLARED))
        for f in fields(BrokerProperties)
        if isinstance(f.default, (bool, int, str))
    ]


def change_properties(properties: BrokerProperties, changes: Mapping[str, str]) -> BrokerProperties:
    """Returns properties with other values, like UPDATE_BROKER_CONFIG, by Apache's names.

    Raises ValueError for a property that this broker does not have or cannot change now, and for a bad value.
    """
    known = {prop.name: prop for prop in list_declared()}
    changed: dict[str, Any] = {}
    for name, text in changes.items():
        if name not in known:
            raise ValueError(f"this broker has no property {name}")
        if known[name].is_fixed:
            raise ValueError(f"property {name} cannot change while the broker runs: set it when the broker starts")
        changed[known[name].field] = known[name].parse(text)
    return replace(properties, **changed)


def format_properties(properties: BrokerProperties) -> dict[str, str]:
    """Returns the values of all properties as texts, by Apache's names."""
    values = {prop.name: getattr(properties, prop.field) for prop in list_declared()}
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
