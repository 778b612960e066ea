"""Flow control: how many messages and bytes a read may pull ahead of its consumer, and how long a pull is parked.

A *lane* is a sequence of pulls that run one after the other: those of one queue, or of a few small ones.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from rmqpull_client.settings import Setting

MIB = 1 << 20
BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
"""The size of the batches that a read yields (rules 9.2). A single message may be larger."""
QUEUE_MESSAGES_OVER_GRPC = 1_000
"""``pull_threshold_for_queue`` over the standard protocol when it is None: as in RocketMQ's clients."""
QUEUE_MESSAGES_OVER_REMOTING = 8_192
"""The same over remoting.

A default broker returns 32 messages per pull, and a task often reads a single queue. RocketMQ's 1,000 messages are then
31 pulls: too few for broker and client to handle many with one system call.
"""

PULL_BATCH_SIZE = Setting(
    32,
    "messages",
    "Messages per pull from an Apache broker (with `nameServers`) or another server without the columnar extension. An "
    "Apache broker returns at most its `maxTransferCountOnMessageInMemory`, 32 by default, so raise both. Servers with "
    "the extension return up to 16,384 messages or 8 MiB per pull.",
)
PULL_THRESHOLD_FOR_QUEUE = Setting[int | None](
    None,
    "messages",
    "Maximum number of messages of a queue that a read, such as a task of Spark, has pulled and that were not taken "
    "from it yet. At this limit, it stops pulling from the queue until more are taken. For Apache's brokers, with "
    "`nameServers`, and for other servers without the columnar extension. Default: "
    f"{QUEUE_MESSAGES_OVER_REMOTING} with `nameServers`, so that enough small pulls are in flight, or else "
    f"{QUEUE_MESSAGES_OVER_GRPC} as in RocketMQ's clients.",
)
PULL_THRESHOLD_SIZE_FOR_QUEUE = Setting(100, "MiB", "Like `pullThresholdForQueue`, but limits the size of the bodies.")
PULL_THRESHOLD_SIZE_FOR_TOPIC = Setting(
    64,
    "MiB",
    "Maximum size of the messages that a read, such as a task of Spark, has pulled ahead or has in flight, over all "
    "its queues. One message is always allowed. RocketMQ's default for this setting is no limit.",
)
LONG_POLLING_TIMEOUT_MS = Setting(
    20_000,
    "ms",
    "How long the broker may park one pull of an idle query. Lower it if a proxy closes idle calls sooner.",
)


@dataclass(frozen=True)
class Flow:
    """Limits of a read. They carry the names that RocketMQ's consumers use.

    ``PlanLimits`` of the remoting transport applies them, and :class:`PulledAhead` for gRPC. The columnar transport
    uses only ``pull_threshold_size_for_topic``.

    The settings above, such as :data:`PULL_BATCH_SIZE`, describe the fields of their names.
    """

    pull_batch_size: int = PULL_BATCH_SIZE.default
    pull_threshold_for_queue: int | None = PULL_THRESHOLD_FOR_QUEUE.default
    pull_threshold_size_for_queue: int = PULL_THRESHOLD_SIZE_FOR_QUEUE.default
    pull_threshold_size_for_topic: int = PULL_THRESHOLD_SIZE_FOR_TOPIC.default
    long_polling_timeout_ms: int = LONG_POLLING_TIMEOUT_MS.default

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
