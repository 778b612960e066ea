"""The connections of clients, by which a broker knows who is there (rules 3.6)."""

from __future__ import annotations

from dataclasses import dataclass

CHANNEL_EXPIRED_TIMEOUT_MS = 120_000
"""``channelExpiredTimeout``: a channel without heartbeat for longer is closed and removed."""
SCAN_INTERVAL_MS = 10_000
"""How often channels are looked through; the first look comes after as long."""
REGISTRATIONS_MAX = 100_000
"""Channels over all groups of one registry."""


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
