"""The members of groups: their connections, and what their heartbeats say (rules 3.6)."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rmqpull_broker.core.clients.subscriptions import FilterData, FilterTable, SubscriptionData

CHANNEL_EXPIRED_TIMEOUT_MS = 120_000
"""``channelExpiredTimeout``: a channel that sends no heartbeat for longer is closed and removed."""
SCAN_INTERVAL_MS = 10_000
"""The time between two scans for expired channels, and until the first one."""


@dataclass(frozen=True)
class ClientChannel:
    """A connection of a client. ``channel_id`` identifies the connection, not the client.

    ``broker_name`` is the logical broker that a client of the remoting protocol is connected to: it has a connection to
    each. It is empty for a client of ``apache.rocketmq.v2``, which is connected to all of them at once.
    """

    channel_id: str
    client_id: str
    language: str = ""
    version: str = ""
    broker_name: str = ""
    address: str = ""

    def is_connected_to(self, broker_name: str) -> bool:
        """Whether the client is a member on this logical broker."""
        return self.broker_name in ("", broker_name)


class ChannelTable:
    """The channels of one group, each with the time of its last heartbeat in milliseconds."""

    def __init__(self) -> None:
        self._channels: dict[str, tuple[ClientChannel, int]] = {}

    def __len__(self) -> int:
        return len(self._channels)

    def __contains__(self, channel_id: str) -> bool:
        return channel_id in self._channels

    def refresh(self, channel: ClientChannel, now_ms: int) -> bool:
        """Adds a heartbeat.

        Returns whether the channel is new: a broker notifies members of that, not of a new client id (rules 6.1).
        """
        is_new = channel.channel_id not in self._channels
        self._channels[channel.channel_id] = channel, now_ms
        return is_new

    def keep(self, channel_ids: Collection[str], now_ms: int) -> None:
        """Adds a heartbeat for each of these channels that is in the table."""
        for channel_id in self._channels.keys() & channel_ids:
            self._channels[channel_id] = self._channels[channel_id][0], now_ms

    def remove(self, channel_id: str) -> bool:
        """Removes a channel. Returns whether it existed."""
        return self._channels.pop(channel_id, None) is not None

    def remove_expired(self, now_ms: int) -> list[ClientChannel]:
        """Removes and returns the channels without a heartbeat for more than two minutes."""
        expired = [
            channel for channel, seen_ms in self._channels.values() if now_ms - seen_ms > CHANNEL_EXPIRED_TIMEOUT_MS
        ]
        for channel in expired:
            del self._channels[channel.channel_id]
        return expired

    def seen_ms(self, channel_id: str) -> int:
        """Returns the time of the last heartbeat of a channel."""
        return self._channels[channel_id][1]

    def all(self) -> tuple[ClientChannel, ...]:
        """Returns the channels in the order of their registration."""
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
    """Where a group without offsets starts. The broker only passes it on: clients apply it."""

    LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
    FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
    TIMESTAMP = "CONSUME_FROM_TIMESTAMP"


@dataclass(frozen=True)
class ConsumerData:
    """A client as a member of one group: an entry of ``consumerDataSet``."""

    group: str
    subscriptions: tuple[SubscriptionData, ...] = ()
    consume_type: ConsumeType = ConsumeType.PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET


@dataclass(frozen=True)
class ConsumerIdsChanged:
    """The CHANGE event: each of these channels gets NOTIFY_CONSUMER_IDS_CHANGED, one-way."""

    group: str
    channels: tuple[ClientChannel, ...]


class ConsumerGroupInfo:
    """One group as its members describe it. The newest heartbeat overrides those of other members."""

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
        """The channels of the members in the order of their registration."""
        return self.members.all()

    def subscription(self, topic: str) -> SubscriptionData | None:
        """Returns the group's subscription to a topic, or None (rules 3.1, row 12)."""
        return self.subscriptions.get(topic)

    def find_filter(self, topic: str) -> FilterData | None:
        """Returns the compiled filter of a subscription of another type than TAG (rules 3.1, rows 14 and 15)."""
        return self._filters.get(self.group, topic)

    def describe(self, consumer: ConsumerData) -> None:
        """Sets the group's properties to those that a member has sent."""
        self.consume_type = consumer.consume_type
        self.message_model = consumer.message_model
        self.consume_from_where = consumer.consume_from_where

    def update_subscriptions(self, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Replaces the group's subscriptions. Returns whether a topic was added or removed.

        A newer version of a subscription replaces the old one without a change event. An older version is ignored.
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
