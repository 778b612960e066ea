"""Who produces: groups of producers and their channels (rules 3.7, 3.15). Lives in memory alone.

A producer that speaks ``apache.rocketmq.v2`` is in one group per topic, named after it (rules 5.7).
"""

from __future__ import annotations

from collections.abc import Callable

from rmqpull_broker.core.clients.channels import REGISTRATIONS_MAX, ChannelTable, ClientChannel
from rmqpull_broker.core.errors import TooManyRequests


class ProducerRegistry:
    """All groups that have a producer."""

    def __init__(self) -> None:
        self._groups: dict[str, ChannelTable] = {}
        self._registrations = 0
        self._turn = 0

    def register(self, group: str, channel: ClientChannel, now_ms: int) -> None:
        """Takes in a heartbeat. Raises TooManyRequests for a producer too many."""
        channels = self._groups.get(group) or ChannelTable()
        if channel.channel_id not in channels:
            if self._registrations >= REGISTRATIONS_MAX:
                raise TooManyRequests(f"{REGISTRATIONS_MAX} producers are registered already; register again later")
            self._registrations += 1
        channels.refresh(channel, now_ms)
        self._groups[group] = channels

    def unregister(self, group: str, channel_id: str) -> None:
        """A producer leaves; one that is not there is no error."""
        channels = self._groups.get(group, ChannelTable())
        self._registrations -= channels.remove(channel_id)
        if not channels:
            self._groups.pop(group, None)

    def channel_closed(self, channel_id: str) -> None:
        """A connection was closed: its producer leaves every group."""
        for group in [group for group, channels in self._groups.items() if channel_id in channels]:
            self.unregister(group, channel_id)

    def expire(self, now_ms: int) -> list[ClientChannel]:
        """Forgets who has sent no heartbeat for two minutes, and gives the channels that are to be closed."""
        expired: dict[str, ClientChannel] = {}
        for group, channels in list(self._groups.items()):
            gone = channels.remove_expired(now_ms)
            self._registrations -= len(gone)
            expired.update({channel.channel_id: channel for channel in gone})
            if not channels:
                del self._groups[group]
        return list(expired.values())

    def channels(self, group: str) -> tuple[ClientChannel, ...]:
        """The group's producers in the order of their registration."""
        return self._groups.get(group, ChannelTable()).all()

    def groups(self) -> list[str]:
        """Every group that has a producer, by name."""
        return sorted(self._groups)

    def next_producer(self, group: str, is_reachable: Callable[[ClientChannel], bool]) -> ClientChannel | None:
        """One reachable producer of the group, each in its turn; None when there is none (``getAvailableChannel``)."""
        channels = self.channels(group)
        self._turn += 1
        in_turn = (channels[(self._turn + step) % len(channels)] for step in range(len(channels)))
        return next(filter(is_reachable, in_turn), None)
