"""How much of what a task pulls is under way or waits for Spark, and whether more may be asked for. Arithmetic alone.

A *lane* is what is pulled one pull after the other: one queue, or a few small ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class FlowLimits:
    """``bytes_max`` holds for all lanes together, and a pull counts as ``bytes_per_pull`` until its answer is there.

    ``lane_messages_max`` and ``lane_bytes_max`` of one lane may be exceeded by one pull, as RocketMQ's thresholds of a
    queue may (rules 1.6); None is no limit of its own.
    """

    bytes_max: int
    bytes_per_pull: int
    lane_messages_max: int | None = None
    lane_bytes_max: int | None = None


class InFlight:
    """Counts pulls from their begin until their messages are taken."""

    def __init__(self, limits: FlowLimits) -> None:
        self._limits = limits
        self._messages: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._pulls = 0
        self._held_bytes = 0

    @property
    def byte_count(self) -> int:
        """Bytes that are held, and that may come with the pulls under way."""
        return self._held_bytes + self._pulls * self._limits.bytes_per_pull

    def may_pull(self, lane: int) -> bool:
        """Whether one pull more is within the limits; the only one always is, however large its message."""
        limits = self._limits
        if limits.lane_messages_max is not None and self._messages[lane] > limits.lane_messages_max:
            return False
        if limits.lane_bytes_max is not None and self._bytes[lane] > limits.lane_bytes_max:
            return False
        return self.byte_count == 0 or self.byte_count + limits.bytes_per_pull <= limits.bytes_max

    def begin(self) -> None:
        """A pull is under way."""
        self._pulls += 1

    def arrive(self, lane: int, messages: int, byte_count: int) -> None:
        """Its answer is there."""
        self._pulls -= 1
        self._add(lane, messages, byte_count)

    def take(self, lane: int, messages: int, byte_count: int) -> None:
        """An answer goes to Spark."""
        self._add(lane, -messages, -byte_count)

    def _add(self, lane: int, messages: int, byte_count: int) -> None:
        self._messages[lane] += messages
        self._bytes[lane] += byte_count
        self._held_bytes += byte_count
