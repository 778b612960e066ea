"""The consumers and producers that are connected (rules 3.6, 3.7, 3.15). Both registries live in memory only.

Clients register again with their next heartbeat. A method that changes a group returns the members to notify; the
caller sends the notifications. A producer that speaks ``apache.rocketmq.v2`` is in one group per topic, named after the
topic (rules 5.7).
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from rmqpull_broker.core.clients.members import (
    ChannelTable,
    ClientChannel,
    ConsumerData,
    ConsumerGroupInfo,
    ConsumerIdsChanged,
    ConsumeType,
    MessageModel,
)
from rmqpull_broker.core.clients.subscriptions import FilterTable, SubscriptionData
from rmqpull_broker.core.errors import InternalError, TooManyRequests

REGISTRATIONS_MAX = 100_000
"""The maximum number of channels in all groups of one registry."""
COMPENSATED_EXPIRED_TIMEOUT_MS = 600_000
"""``subscriptionExpiredTimeout``: how long a subscription of a pull is kept."""
COMPENSATED_GROUPS_MAX = 10_000
COMPENSATED_TOPICS_MAX = 1_000
"""Groups that only pull, and topics of one such group. Above these limits, the oldest are forgotten."""


class ConsumerRegistry:
    """All groups with members, and the subscriptions of pulls by other groups.

    Arguments: the broker's ``notifyConsumerIdsChangedEnable``, and the filters, which outlive their groups.
    """

    def __init__(self, *, notify_consumer_ids_changed: bool = True, filters: FilterTable | None = None) -> None:
        self._notifies = notify_consumer_ids_changed
        self._filters = FilterTable() if filters is None else filters
        self._groups: dict[str, ConsumerGroupInfo] = {}
        self._compensated: dict[str, ConsumerGroupInfo] = {}
        self._registrations = 0

    # --- look-ups --------------------------------------------------------------------------------------------------

    def find_consumer_group(self, group: str) -> ConsumerGroupInfo | None:
        """Returns the group as its heartbeats describe it; None for a group without members (rules 3.1, row 9b)."""
        return self._groups.get(group)

    def list_consumer_groups(self) -> list[ConsumerGroupInfo]:
        """Returns all groups with members, sorted by name."""
        return [self._groups[name] for name in sorted(self._groups)]

    def find_compensated_group(self, group: str) -> ConsumerGroupInfo | None:
        """Returns the group as its pulls describe it, or None."""
        return self._compensated.get(group)

    def find_subscription(self, group: str, topic: str) -> SubscriptionData | None:
        """Returns the subscription of the group's heartbeats to a topic, or that of its pulls, or None."""
        infos = (self._groups.get(group), self._compensated.get(group))
        found = (info.subscription(topic) for info in infos if info is not None)
        return next((subscription for subscription in found if subscription is not None), None)

    @property
    def is_empty(self) -> bool:
        """Whether :meth:`expire` has nothing to remove, now and later."""
        pulled = any(info.subscriptions for info in self._compensated.values())
        return not self._groups and not pulled and len(self._filters) == 0

    def members(self, group: str) -> tuple[ClientChannel, ...]:
        """Returns the channels of a group's members."""
        info = self._groups.get(group)
        return () if info is None else info.channels

    def list_client_ids(self, group: str, broker_name: str) -> list[str]:
        """Returns the result of GET_CONSUMER_LIST_BY_GROUP on one logical broker.

        Raises InternalError for a group without members there.
        """
        found = [channel.client_id for channel in self.members(group) if channel.is_connected_to(broker_name)]
        if not found:
            raise InternalError(f"no consumer for this group, {group}")
        return found

    def find_member(self, group: str, client_id: str, broker_name: str) -> ClientChannel | None:
        """Returns the channel of a member by its client id, on one logical broker; None if it is not online."""
        members = (channel for channel in self.members(group) if channel.is_connected_to(broker_name))
        return next((channel for channel in members if channel.client_id == client_id), None)

    # --- joining and leaving ---------------------------------------------------------------------------------------

    def register(
        self,
        consumer: ConsumerData,
        channel: ClientChannel,
        now_ms: int,
        *,
        notify: bool = True,
        without_sub: bool = False,
    ) -> ConsumerIdsChanged | None:
        """Adds one entry of a heartbeat. Returns the members to notify, or None.

        ``notify`` is the group's ``notifyConsumerIdsChangedEnable``. With ``without_sub``, subscriptions and filters do
        not change (rules 3.7). Raises TooManyRequests above the limit of members.
        """
        info = self._groups.get(consumer.group) or ConsumerGroupInfo(consumer.group, self._filters)
        if channel.channel_id not in info.members:
            self._add_registration()
        self._groups[consumer.group] = info
        info.describe(consumer)
        is_changed = info.members.refresh(channel, now_ms)
        if not without_sub:
            is_changed |= info.update_subscriptions(consumer.subscriptions)
            self._filters.register(consumer.group, consumer.subscriptions, now_ms)
        return self._make_change(info) if is_changed and notify else None

    def unregister(self, group: str, channel_id: str, now_ms: int, *, notify: bool = True) -> ConsumerIdsChanged | None:
        """Removes a member that leaves.

        The others are notified even if it was not a member, as by Apache's broker (rules 6.1).
        """
        info = self._groups.get(group)
        if info is None:
            return None
        self._remove(info, channel_id, now_ms)
        return self._make_change(info) if notify else None

    def channel_closed(self, channel_id: str, now_ms: int) -> list[ConsumerIdsChanged]:
        """Removes a connection that was closed, failed or idle. Returns the members to notify, in all of its groups.

        The groups' ``notifyConsumerIdsChangedEnable`` has no effect here.
        """
        left = [info for info in self._groups.values() if channel_id in info.members]
        for info in left:
            self._remove(info, channel_id, now_ms)
        return [change for info in left if (change := self._make_change(info)) is not None]

    def keep(self, channel_ids: Collection[str], now_ms: int) -> None:
        """Adds a heartbeat of members, by their channels."""
        for info in self._groups.values():
            info.members.keep(channel_ids, now_ms)

    def expire(self, now_ms: int, wall_ms: int | None = None) -> list[ClientChannel]:
        """Removes members without a heartbeat for two minutes, and returns the channels to close.

        Notifies nobody. Also removes old compensated subscriptions and unused filters. The age of a subscription is
        measured at ``wall_ms``, a wall-clock time, because its creation time comes from the client's clock.
        """
        expired: dict[str, ClientChannel] = {}
        for group, info in list(self._groups.items()):
            removed = info.members.remove_expired(now_ms)
            self._registrations -= len(removed)
            expired.update({channel.channel_id: channel for channel in removed})
            if not info.members:
                del self._groups[group]
        self._expire_compensated(now_ms if wall_ms is None else wall_ms)
        self._filters.forget_dead(now_ms)
        return list(expired.values())

    def _add_registration(self) -> None:
        if self._registrations >= REGISTRATIONS_MAX:
            raise TooManyRequests(f"{REGISTRATIONS_MAX} consumers are registered already; register again later")
        self._registrations += 1

    def _remove(self, info: ConsumerGroupInfo, channel_id: str, now_ms: int) -> None:
        self._registrations -= info.members.remove(channel_id)
        if not info.members:
            del self._groups[info.group]
            self._filters.unregister(info.group, now_ms)

    def _make_change(self, info: ConsumerGroupInfo) -> ConsumerIdsChanged | None:
        is_notified = self._notifies and info.message_model is not MessageModel.BROADCASTING and len(info.members) > 0
        return ConsumerIdsChanged(info.group, info.channels) if is_notified else None

    # --- groups that only pull -------------------------------------------------------------------------------------

    def compensate(
        self,
        group: str,
        consume_type: ConsumeType = ConsumeType.PASSIVELY,
        message_model: MessageModel = MessageModel.CLUSTERING,
    ) -> None:
        """Stores how a group that pulls consumes, because it may never send a heartbeat (rules 3.1)."""
        info = self._compensated.get(group)
        if info is None:
            info = self._compensated[group] = ConsumerGroupInfo(group, self._filters)
            if len(self._compensated) > COMPENSATED_GROUPS_MAX:
                del self._compensated[next(iter(self._compensated))]
        info.consume_type, info.message_model = consume_type, message_model

    def compensate_subscription(self, group: str, subscription: SubscriptionData) -> None:
        """Stores the subscription of a pull with the subscription bit."""
        if group not in self._compensated:
            self.compensate(group)
        info = self._compensated[group]
        subscriptions = info.subscriptions = _drop_expired(info.subscriptions, subscription.sub_version)
        subscriptions[subscription.topic] = subscription
        if len(subscriptions) > COMPENSATED_TOPICS_MAX:
            del subscriptions[next(iter(subscriptions))]

    def _expire_compensated(self, now_ms: int) -> None:
        for group, info in list(self._compensated.items()):
            living = _drop_expired(info.subscriptions, now_ms)
            if info.subscriptions and not living:
                del self._compensated[group]
            info.subscriptions = living


def _drop_expired(subscriptions: dict[str, SubscriptionData], now_ms: int) -> dict[str, SubscriptionData]:
    return {
        topic: subscription
        for topic, subscription in subscriptions.items()
        if now_ms - subscription.sub_version <= COMPENSATED_EXPIRED_TIMEOUT_MS
    }


class ProducerRegistry:
    """All groups with producers."""

    def __init__(self) -> None:
        self._groups: dict[str, ChannelTable] = {}
        self._registrations = 0
        self._turn = 0

    def register(self, group: str, channel: ClientChannel, now_ms: int) -> None:
        """Adds a heartbeat. Raises TooManyRequests above the limit of producers."""
        channels = self._groups.get(group) or ChannelTable()
        if channel.channel_id not in channels:
            if self._registrations >= REGISTRATIONS_MAX:
                raise TooManyRequests(f"{REGISTRATIONS_MAX} producers are registered already; register again later")
            self._registrations += 1
        channels.refresh(channel, now_ms)
        self._groups[group] = channels

    def unregister(self, group: str, channel_id: str) -> None:
        """Removes a producer that leaves. Ignores an unknown one."""
        channels = self._groups.get(group, ChannelTable())
        self._registrations -= channels.remove(channel_id)
        if not channels:
            self._groups.pop(group, None)

    def channel_closed(self, channel_id: str) -> None:
        """Removes the producer of a closed connection from all groups."""
        for group in [group for group, channels in self._groups.items() if channel_id in channels]:
            self.unregister(group, channel_id)

    def keep(self, channel_ids: Collection[str], now_ms: int) -> None:
        """Adds a heartbeat of producers, by their channels."""
        for channels in self._groups.values():
            channels.keep(channel_ids, now_ms)

    def expire(self, now_ms: int) -> list[ClientChannel]:
        """Removes producers without a heartbeat for two minutes, and returns the channels to close."""
        expired: dict[str, ClientChannel] = {}
        for group, channels in list(self._groups.items()):
            removed = channels.remove_expired(now_ms)
            self._registrations -= len(removed)
            expired.update({channel.channel_id: channel for channel in removed})
            if not channels:
                del self._groups[group]
        return list(expired.values())

    def channels(self, group: str) -> tuple[ClientChannel, ...]:
        """Returns the group's producers in the order of their registration."""
        return self._groups.get(group, ChannelTable()).all()

    def seen_ms(self, group: str, channel_id: str) -> int:
        """Returns the time of the last heartbeat of one of the group's producers."""
        return self._groups[group].seen_ms(channel_id)

    def groups(self) -> list[str]:
        """Returns the names of all groups with producers, sorted."""
        return sorted(self._groups)

    def find_by_client_id(self, client_id: str, broker_name: str) -> ClientChannel | None:
        """Returns a producer by its client id, on one logical broker; None if it is not online."""
        channels = (channel for channels in self._groups.values() for channel in channels.all())
        found = (channel for channel in channels if channel.client_id == client_id)
        return next((channel for channel in found if channel.is_connected_to(broker_name)), None)

    def next_producer(self, group: str, is_reachable: Callable[[ClientChannel], bool]) -> ClientChannel | None:
        """Returns the group's next reachable producer, in rotation, or None (``getAvailableChannel``)."""
        channels = self.channels(group)
        self._turn += 1
        in_turn = (channels[(self._turn + step) % len(channels)] for step in range(len(channels)))
        return next(filter(is_reachable, in_turn), None)
