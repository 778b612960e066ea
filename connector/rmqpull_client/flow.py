"""Flow control: how many messages and bytes a read may pull ahead of its consumer, and how long a pull is parked.

A *lane* is a sequence of pulls that run one after the other: those of one queue, or of a few small ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

MIB = 1 << 20
BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
"""The size of the batches that a read yields (rules 9.2). A single message may be larger."""


@dataclass(frozen=True)
class Flow:
    """Limits of a read. They carry the names that RocketMQ's consumers use.

    Args:
        pull_batch_size: The messages that one pull asks for. The columnar protocol does not use it.
        pull_threshold_for_queue: The messages of one queue that may be pulled ahead. The columnar protocol does not use
            it. None: 8,192 over remoting, 1,000 over the standard protocol.
        pull_threshold_size_for_queue: The same limit in MiB. The columnar protocol does not use it.
        pull_threshold_size_for_topic: The MiB that one read may pull ahead, over all queues.
        long_polling_timeout_ms: The milliseconds that the broker parks one pull while there are no messages.
    """

    pull_batch_size: int = 32
    pull_threshold_for_queue: int | None = None
    pull_threshold_size_for_queue: int = 100
    pull_threshold_size_for_topic: int = 64
    long_polling_timeout_ms: int = 20_000

    def split_wait(self, wait_ms: int) -> list[int]:
        """Splits a wait into the times of parked pulls, none of them longer than ``long_polling_timeout_ms``."""
        whole, rest = divmod(wait_ms, self.long_polling_timeout_ms)
        return [self.long_polling_timeout_ms] * whole + ([rest] if rest else [])


DEFAULT_FLOW = Flow()


@dataclass(frozen=True)
class FlowLimits:
    """The limits of one read in bytes and messages.

    ``bytes_max`` holds for all lanes together. A pull counts as ``bytes_per_pull`` until its response has arrived.
    One pull may exceed ``lane_messages_max`` and ``lane_bytes_max``, as it may exceed RocketMQ's thresholds of a queue
    (rules 1.6). None is no limit.
    """

    bytes_max: int
    bytes_per_pull: int
    lane_messages_max: int | None = None
    lane_bytes_max: int | None = None


class PulledAhead:
    """Counts pulls and their messages, from the start of the pull until the consumer takes the messages."""

    def __init__(self, limits: FlowLimits) -> None:
        self._limits = limits
        self._messages: Counter[int] = Counter()
        self._bytes: Counter[int] = Counter()
        self._pulls = 0
        self._held_bytes = 0

    @property
    def byte_count(self) -> int:
        """The bytes in memory plus those that the pulls in flight may bring."""
        return self._held_bytes + self._pulls * self._limits.bytes_per_pull

    def may_pull(self, lane: int) -> bool:
        """Whether one more pull is within the limits. A single pull always is, however large its message."""
        limits = self._limits
        if limits.lane_messages_max is not None and self._messages[lane] > limits.lane_messages_max:
            return False
        if limits.lane_bytes_max is not None and self._bytes[lane] > limits.lane_bytes_max:
            return False
        return self.byte_count == 0 or self.byte_count + limits.bytes_per_pull <= limits.bytes_max

    def start_pull(self) -> None:
        """Counts a pull as in flight."""
        self._pulls += 1

    def finish_pull(self, lane: int, messages: int, byte_count: int) -> None:
        """Replaces a pull in flight by the messages of its response."""
        self._pulls -= 1
        self._add(lane, messages, byte_count)

    def take(self, lane: int, messages: int, byte_count: int) -> None:
        """Stops counting messages that the consumer has taken."""
        self._add(lane, -messages, -byte_count)

    def _add(self, lane: int, messages: int, byte_count: int) -> None:
        self._messages[lane] += messages
        self._bytes[lane] += byte_count
        self._held_bytes += byte_count
