"""The members of groups: their connections, and what their heartbeats say (rules 3.6)."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass

from rmqpull_broker.core.clients.subscriptions import FilterData, FilterTable, SubscriptionData

CHANNEL_EXPIRED_TIMEOUT_MS = 120_000
"""``channelExpiredTimeout``: a channel without heartbeat for longer is closed and removed."""
SCAN_INTERVAL_MS = 10_000
"""How often channels are looked through; the first look comes after as long."""


@dataclass(frozen=True)
class ClientChannel:
    """A connection that a client made. ``channel_id`` is the connection's own, whoever speaks through it."""

    channel_id: str
    client_id: str
    language: str = ""
    version: str = ""


class ChannelTable:
    """The channels of one group, each with the time of its last heartbeat in milliseconds."""

    def __init__(self) -> None:
        self._channels: dict[str, tuple[ClientChannel, int]] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def __contains__(self, channel_id: str) -> bool:
        return channel_id in self._channels

    def refresh(self, channel: ClientChannel, now_ms: int) -> bool:
        """Takes in a heartbeat; whether something changed: a new channel, or another client on a known one."""
        known = self._channels.get(channel.channel_id)
        self._channels[channel.channel_id] = channel, now_ms
        return known is None or known[0].client_id != channel.client_id

    def remove(self, channel_id: str) -> bool:
        """Forgets a channel; whether it was there."""
        return self._channels.pop(channel_id, None) is not None

    def remove_expired(self, now_ms: int) -> list[ClientChannel]:
        """Forgets the channels without heartbeat for longer than two minutes, and gives them."""
        expired = [
            channel for channel, seen_ms in self._channels.values() if now_ms - seen_ms > CHANNEL_EXPIRED_TIMEOUT_MS
        ]
        for channel in expired:
            del self._channels[channel.channel_id]
        return expired

    def all(self) -> tuple[ClientChannel, ...]:
        """The channels in the order of their registration."""
        return tuple(channel for channel, _ in self._channels.values())


class ConsumeType(enum.Enum):
    """How a consumer gets its messages."""

    ACTIVELY = "CONSUME_ACTIVELY"
    PASSIVELY = "CONSUME_PASSIVELY"
    POP = "CONSUME_POP"


class MessageModel(enum.Enum):
    """Whether the members of a group share the messages, or each gets all of them."""

    CLUSTERING = "CLUSTERING"
    BROADCASTING = "BROADCASTING"


class ConsumeFromWhere(enum.Enum):
    """Where a group without offsets begins; a broker only passes it on."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True)
class ConsumerData:
    """What a client says of itself as a member of one group: an entry of ``consumerDataSet``."""

    group: str
    subscriptions: tuple[SubscriptionData, ...] = ()
    consume_type: ConsumeType = ConsumeType.PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET


@dataclass(frozen=True)
class ConsumerIdsChanged:
    """The CHANGE event: each of these channels gets NOTIFY_CONSUMER_IDS_CHANGED, at once and one-way."""

    group: str
    channels: tuple[ClientChannel, ...]


class ConsumerGroupInfo:
    """One group as its members describe it. The newest heartbeat's word counts for all of them."""

    def __init__(self, group: str, filters: FilterTable) -> None:
        self.group = group
        self.consume_type = ConsumeType.PASSIVELY
        self.message_model = MessageModel.CLUSTERING
        self.consume_from_where = ConsumeFromWhere.LAST_OFFSET
        self.subscriptions: dict[str, SubscriptionData] = {}
        self.members = ChannelTable()
        self._filters = filters

    @property
    def channels(self) -> tuple[ClientChannel, ...]:
        """The members' channels in the order of their registration."""
        return self.members.all()

    def subscription(self, topic: str) -> SubscriptionData | None:
        """What the group wants of a topic; None when it does not subscribe to it (rules 3.1, row 12)."""
        return self.subscriptions.get(topic)

    def filter_data(self, topic: str) -> FilterData | None:
        """The compiled filter of a subscription that is not TAG (rules 3.1, rows 14 and 15)."""
        return self._filters.get(self.group, topic)

    def describe(self, consumer: ConsumerData) -> None:
        """Takes over what a member says of the group as a whole."""
        self.consume_type = consumer.consume_type
        self.message_model = consumer.message_model
        self.consume_from_where = consumer.consume_from_where

    def update_subscriptions(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Makes these the group's subscriptions; whether a topic came or went.

        A topic that stays is replaced by a newer version in silence, and an older version changes nothing.
        """
        wanted = {subscription.topic: subscription for subscription in subscriptions}
        is_changed = wanted.keys() != self.subscriptions.keys()
        kept = {topic: old for topic, old in self.subscriptions.items() if topic in wanted}
        newer = {
            topic: new
            for topic, new in wanted.items()
            if topic not in kept or new.sub_version > kept[topic].sub_version
        }
        self.subscriptions = kept | newer
        return is_changed
