"""HEART_BEAT: a client names its groups (rules 3.7).

It takes two steps: the commit log keeps groups and retry topics, but not who is connected.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.admin.topics import ensure_retry_topic
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumerIdsChanged
from rmqpull_broker.core.clients.registries import ConsumerRegistry, ProducerRegistry
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.state.draft import Draft
from rmqpull_proto.names import RETRY_PREFIX

FINGERPRINTS_MAX = 10_000
"""Groups whose last fingerprint is kept. Above this limit, the oldest is forgotten."""


@dataclass(frozen=True)
class Heartbeat:
    """A heartbeat. A ``fingerprint`` other than 0 makes it version 2, which may leave out subscriptions."""

    channel: ClientChannel
    consumers: tuple[ConsumerData, ...] = ()
    producer_groups: tuple[str, ...] = ()
    fingerprint: int = 0
    without_sub: bool = False


@dataclass(frozen=True)
class HeartbeatAnswer:
    """``IS_SUB_CHANGE`` of the response, and the members to notify."""

    is_sub_change: bool
    changes: tuple[ConsumerIdsChanged, ...] = ()


def draft_groups(draft: Draft, names: Iterable[str], new_creation_id: Callable[[], str]) -> list[GroupConfig]:
    """Creates missing groups and their ``%RETRY%`` topics, and returns the groups.

    Leaves out groups that do not exist and may not be created. Names are checked by the broker's rules; the stricter
    rules of ``apache.rocketmq.v2`` are checked by its handlers.
    """
    found = []
    for name in names:
        group = find_or_create_group(draft, name)
        if group is not None:
            ensure_retry_topic(draft, RETRY_PREFIX + name, group.retry_queue_nums, new_creation_id)
            found.append(group)
    return found


class Heartbeats:
    """Registers the clients of heartbeats, and keeps the last fingerprint of each group."""

    def __init__(self, consumers: ConsumerRegistry, producers: ProducerRegistry) -> None:
        self._consumers = consumers
        self._producers = producers
        self._fingerprints = OrderedDict[str, int]()

    def take(self, heartbeat: Heartbeat, groups: Iterable[GroupConfig], now_ms: int) -> HeartbeatAnswer:
        """Registers the client in ``groups``, which :func:`draft_groups` returned, and in its producer groups.

        Raises TooManyRequests.
        """
        is_version_2 = heartbeat.fingerprint != 0
        is_sub_change = self._store_fingerprints(heartbeat)
        configs = {group.name: group for group in groups}
        changes = []
        for consumer in heartbeat.consumers:
            if consumer.group in configs:
                change = self._consumers.register(
                    consumer,
                    heartbeat.channel,
                    now_ms,
                    notify=configs[consumer.group].notify_consumer_ids_changed_enable,
                    without_sub=is_version_2 and heartbeat.without_sub,
                )
                changes += [change] if change is not None else []
        for group_name in heartbeat.producer_groups:
            self._producers.register(group_name, heartbeat.channel, now_ms)
        return HeartbeatAnswer(is_sub_change or not is_version_2, tuple(changes))

    def _store_fingerprints(self, heartbeat: Heartbeat) -> bool:
        """Stores the fingerprint. Returns whether that of any group has changed; a first one is not a change."""
        is_changed = False
        for consumer in heartbeat.consumers:
            is_changed |= self._fingerprints.get(consumer.group, heartbeat.fingerprint) != heartbeat.fingerprint
            self._fingerprints[consumer.group] = heartbeat.fingerprint
            if len(self._fingerprints) > FINGERPRINTS_MAX:
                self._fingerprints.popitem(last=False)
        return is_changed
