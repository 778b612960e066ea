"""The broker's properties under Apache's names and with its defaults (rocketmq-semantics 3.9.5): one declaration each.

A field in snake_case is Apache's camelCase name: ``auto_create_topic_enable`` is ``autoCreateTopicEnable``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

from rmqpull_broker.core.model import PERM_READ, PERM_WRITE

DELAY_LEVELS = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


def _property(default: Any, unit: str, doc: str, *, deviation: str = "") -> Any:
    return field(default=default, metadata={"unit": unit, "doc": doc, "deviation": deviation})


@dataclass(frozen=True)
class BrokerProperties:
    """What Apache's broker reads from ``broker.conf``, as far as clients can feel it."""

    broker_cluster_name: str = _property("DefaultCluster", "name", "Name of the cluster.")
    broker_permission: int = _property(PERM_READ | PERM_WRITE, "bits", "What the broker allows: 4 read, 2 write.")
    auto_create_topic_enable: bool = _property(True, "", "Whether a send may create its topic from TBW102.")
    auto_create_subscription_group: bool = _property(True, "", "Whether a pull or heartbeat may create its group.")
    default_topic_queue_nums: int = _property(8, "queues", "Queues of TBW102, at most as many has a created topic.")
    enable_mixed_message_type: bool = _property(False, "", "Whether topics of type MIXED may be made.")
    enable_property_filter: bool = _property(
        True, "", "Whether SQL92 filter expressions are served.", deviation="Apache's default is false"
    )
    lite_pull_message_enable: bool = _property(True, "", "Whether lite pull consumers are served.")
    reject_pull_consumer_enable: bool = _property(False, "", "Whether pulls of unregistered consumers are refused.")
    long_polling_enable: bool = _property(True, "", "Whether a pull that finds nothing is held as long as it asks.")
    short_polling_time_mills: int = _property(1_000, "ms", "How long it is held when longPollingEnable is off.")
    use_server_side_reset_offset: bool = _property(True, "", "Whether a reset is told to the next pull.")
    notify_consumer_ids_changed_enable: bool = _property(True, "", "Whether members hear of joins and leaves.")
    start_accept_send_request_time_stamp: int = _property(0, "ms", "Time since 1970 before which sends are refused.")
    max_message_size: int = _property(4_194_304, "bytes", "The largest body.")
    message_delay_level: str = _property(DELAY_LEVELS, "durations", "The delay of each level, from level 1 on.")
    timer_wheel_enable: bool = _property(True, "", "Whether messages may have an arbitrary delivery time.")
    timer_max_delay_sec: int = _property(
        259_200, "s", "How far away a delivery time may be; the proxy's own limit for sends, a day, comes first."
    )
    recall_message_enable: bool = _property(
        True, "", "Whether a delayed message can be recalled.", deviation="Apache's default is false"
    )
    reject_transaction_message: bool = _property(False, "", "Whether half messages are refused.")
    transaction_time_out: int = _property(6_000, "ms", "Age at which an unresolved half message is first checked.")
    transaction_check_interval: int = _property(30_000, "ms", "Time between two looks at unresolved half messages.")
    transaction_check_max: int = _property(15, "checks", "Checks after which a half message is given up.")
    region_id: str = _property("DefaultRegion", "name", "Region that stored messages carry.")
    trace_on: bool = _property(True, "", "Whether stored messages ask for traces.")
    flush_disk_type: str = _property(
        "SYNC_FLUSH",
        "",
        "SYNC_FLUSH answers a send when it is synced to the disk, ASYNC_FLUSH when it is written.",
        deviation="Apache's default is ASYNC_FLUSH",
    )
    flush_interval_commit_log: int = _property(500, "ms", "Time between two syncs with ASYNC_FLUSH.")
    mapped_file_size_commit_log: int = _property(1 << 30, "bytes", "Size of a segment of the commit log.")
    file_reserved_time: int = _property(72, "hours", "Age at which a segment of the commit log is deleted.")
    retention_bytes: int = _property(
        0,
        "bytes",
        "Size of the commit log above which its oldest segments are deleted; 0 for none.",
        deviation="not one of Apache's",
    )
    disk_max_used_space_ratio: int = _property(75, "percent", "Use of the disk above which old segments are deleted.")


class Declared(NamedTuple):
    """One property as users see it."""

    name: str
    field: str
    default: bool | int | str
    unit: str
    doc: str
    deviation: str


def declared() -> list[Declared]:
    """All properties, in the order of their declaration."""
    return [
        Declared(_camel_case(f.name), f.name, f.default, f.metadata["unit"], f.metadata["doc"], f.metadata["deviation"])
        for f in fields(BrokerProperties)
        if isinstance(f.default, (bool, int, str))
    ]


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
