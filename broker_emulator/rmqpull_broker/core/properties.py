"""The broker's properties under Apache's names and with its defaults (rules 3.9.5): one declaration each.

A field in snake_case is Apache's camelCase name: ``auto_create_topic_enable`` is ``autoCreateTopicEnable``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from rmqpull_broker.core.limits import QUEUES_MAX, TIMES_MS
from rmqpull_broker.core.model import PERM_READ, PERM_WRITE

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
_LEVEL_MS_MAX = 3_650 * 86_400_000

_DURATION = re.compile(r"([0-9]{1,9})([smhd])")
_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NAME_LENGTH_MAX = 100
_INT_MAX = (1 << 31) - 1

NOT_SERVED = "Apache's remoting protocol, which is not served"


def parse_level_delays(levels: str) -> list[int]:
    """The delay of each level, from level 1 on. Raises ValueError for a text that is not like ``1s 5m 2h``."""
    delays = [_delay_ms(level) for level in levels.split()]
    if not 1 <= len(delays) <= QUEUES_MAX:
        raise ValueError(f"there are {len(delays)} delays: expected 1 to {QUEUES_MAX}")
    return delays


def _delay_ms(level: str) -> int:
    form = _DURATION.fullmatch(level)
    if form is None:
        raise ValueError(f"{level!r} is no delay: expected a number and one of s, m, h, d, as 30s")
    delay_ms = int(form[1]) * _UNITS_MS[form[2]]
    if delay_ms > _LEVEL_MS_MAX:
        raise ValueError(f"{level!r} is too long a delay: expected ten years, 3650d, at most")
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
    idle: str = "",
) -> Any:
    """A number lies between ``least`` and ``most``; ``check`` raises ValueError for a text that will not do.

    ``idle`` says why the property changes nothing on a running broker, which then refuses it.
    """
    checks = {"least": least, "most": most, "check": check}
    return field(default=default, metadata={"unit": unit, "doc": doc, "deviation": deviation, "idle": idle, **checks})


@dataclass(frozen=True)
class BrokerProperties:
    """What Apache's broker reads from ``broker.conf``, as far as clients can feel it.

    Raises ValueError for a value that a property cannot have.
    """

    broker_cluster_name: str = _property("DefaultCluster", "name", "Name of the cluster.", check=_check_name)
    broker_permission: int = _property(
        PERM_READ | PERM_WRITE, "bits", "What the broker allows: 4 read, 2 write.", most=7
    )
    auto_create_topic_enable: bool = _property(
        True,
        "",
        "Whether a `PublishColumns` with `TBW102` as its `default_topic` may create its topic. No other send creates "
        "one: `SendMessage` to an unknown topic gets TOPIC_NOT_FOUND, as from Apache's proxy.",
    )
    auto_create_subscription_group: bool = _property(True, "", "Whether a pull or heartbeat may create its group.")
    default_topic_queue_nums: int = _property(
        8, "queues", "Queues of TBW102, at most as many has a created topic.", least=1, most=QUEUES_MAX
    )
    enable_mixed_message_type: bool = _property(False, "", "Whether topics of type MIXED may be made.")
    enable_property_filter: bool = _property(
        True, "", "Whether SQL92 filter expressions are served.", deviation="Apache's default is false"
    )
    lite_pull_message_enable: bool = _property(
        True, "", "Whether lite pull consumers are served.", idle=f"lite pull consumers speak {NOT_SERVED}"
    )
    reject_pull_consumer_enable: bool = _property(False, "", "Whether pulls of unregistered consumers are refused.")
    long_polling_enable: bool = _property(True, "", "Whether a pull that finds nothing is held as long as it asks.")
    short_polling_time_mills: int = _property(
        1_000, "ms", "How long it is held when longPollingEnable is off.", least=1
    )
    use_server_side_reset_offset: bool = _property(True, "", "Whether a reset is told to the next pull.")
    notify_consumer_ids_changed_enable: bool = _property(
        True,
        "",
        "Whether members hear of joins and leaves.",
        idle=f"members hear of joins and leaves over {NOT_SERVED}",
    )
    start_accept_send_request_time_stamp: int = _property(
        0, "ms", "Time since 1970 before which sends are refused.", most=TIMES_MS[1]
    )
    max_message_size: int = _property(4_194_304, "bytes", "The largest body.", least=1)
    message_delay_level: str = _property(
        DELAY_LEVELS, "durations", "The delay of each level, from level 1 on.", check=parse_level_delays
    )
    timer_wheel_enable: bool = _property(True, "", "Whether messages may have an arbitrary delivery time.")
    timer_max_delay_sec: int = _property(
        259_200, "s", "How far away a delivery time may be; the proxy's own limit for sends, a day, comes first."
    )
    recall_message_enable: bool = _property(
        True, "", "Whether a delayed message can be recalled.", deviation="Apache's default is false"
    )
    reject_transaction_message: bool = _property(False, "", "Whether half messages are refused.")
    transaction_time_out: int = _property(6_000, "ms", "Age at which an unresolved half message is first checked.")
    transaction_check_interval: int = _property(
        30_000, "ms", "Time between two looks at unresolved half messages.", least=1
    )
    transaction_check_max: int = _property(15, "checks", "Checks after which a half message is given up.")
    region_id: str = _property("DefaultRegion", "name", "Region that stored messages carry.", check=_check_name)
    trace_on: bool = _property(True, "", "Whether stored messages ask for traces.")
    flush_disk_type: str = _property(
        "SYNC_FLUSH",
        "",
        "SYNC_FLUSH answers a send when it is synced to the disk, ASYNC_FLUSH when it is written.",
        check=_check_flush,
        deviation="Apache's default is ASYNC_FLUSH",
    )
    flush_interval_commit_log: int = _property(500, "ms", "Time between two syncs with ASYNC_FLUSH.", least=1)
    mapped_file_size_commit_log: int = _property(
        1 << 30, "bytes", "Size of a segment of the commit log.", least=1, most=1 << 40
    )
    file_reserved_time: int = _property(72, "hours", "Age at which a segment of the commit log is deleted.")
    retention_bytes: int = _property(
        0,
        "bytes",
        "Size of the commit log above which its oldest segments are deleted; 0 for none.",
        most=(1 << 63) - 1,
        deviation="not one of Apache's",
    )

    def __post_init__(self) -> None:
        for prop in list_declared():
            prop.check(getattr(self, prop.field))


class Declared(NamedTuple):
    """One property as users see it."""

    name: str
    field: str
    default: bool | int | str
    unit: str
    doc: str
    deviation: str
    idle: str
    least: int
    most: int
    check_text: Callable[[str], object]

    def check(self, value: bool | int | str) -> None:
        """Raises ValueError for a value that the property cannot have."""
        if isinstance(value, str):
            try:
                self.check_text(value)
            except ValueError as error:
                raise ValueError(f"property {self.name} is {value!r}: {error}") from None
        elif not (isinstance(value, bool) or self.least <= value <= self.most):
            raise ValueError(f"property {self.name} is {value}: expected {self.least} to {self.most}")


_DECLARED = ("unit", "doc", "deviation", "idle", "least", "most", "check")


def list_settable() -> list[Declared]:
    """The properties that change something on a running broker, in the order of their declaration."""
    return [prop for prop in list_declared() if not prop.idle]


def list_declared() -> list[Declared]:
    """All properties, in the order of their declaration."""
    return [
        Declared(_camel_case(f.name), f.name, f.default, *map(f.metadata.__getitem__, _DECLARED))
        for f in fields(BrokerProperties)
        if isinstance(f.default, (bool, int, str))
    ]


def explain_no_effect(name: str, why: str) -> str:
    """What a setting without effect is refused with."""
    return f"{name} changes nothing on this broker: {why}; leave it out"


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
