"""The settings that the server sends to clients, as plain data (rules 5.7.1)."""

from __future__ import annotations

from dataclasses import dataclass

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType
from rmqpull_broker.core.errors import InternalError
from rmqpull_broker.core.limits import RECONSUME_TIMES_MAX
from rmqpull_broker.core.model import GroupConfig

RECEIVE_BATCH_SIZE = 32
LONG_POLLING_TIMEOUT_MS = 20_000
PRODUCER_ATTEMPTS_MAX = 3
RETRY_DELAYS_MS: tuple[int, ...] = tuple(
    1000 * seconds for seconds in (1, 5, 10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30)), 3600, 7200)
)
"""Apache's CustomizedRetryPolicy: the delay before each further attempt. The last delay counts for all attempts after
it."""

_FIRST_REDELIVERY = 2
"""The broker's own redeliveries leave out the first delays (rules 5.13)."""


@dataclass(frozen=True)
class ExponentialBackoff:
    """Delays that grow by a factor, in milliseconds. The Java and Node producers require it (rules 5.7.2)."""

    initial_ms: int
    max_ms: int
    multiplier: float


@dataclass(frozen=True)
class CustomizedBackoff:
    """One delay for each further attempt, in milliseconds."""

    next_ms: tuple[int, ...]


@dataclass(frozen=True)
class PublishingSettings:
    """The settings of a producer. A maximum body size of 0 would forbid every message."""

    max_body_size: int
    max_attempts: int = PRODUCER_ATTEMPTS_MAX
    backoff: ExponentialBackoff = ExponentialBackoff(10, 1_000, 2.0)
    validate_message_type: bool = True


@dataclass(frozen=True)
class SubscriptionSettings:
    """The settings of a consumer."""

    max_attempts: int
    fifo: bool
    backoff: CustomizedBackoff = CustomizedBackoff(RETRY_DELAYS_MS)
    receive_batch_size: int = RECEIVE_BATCH_SIZE
    long_polling_timeout_ms: int = LONG_POLLING_TIMEOUT_MS


def find_redelivery_delay_ms(reconsume_times: int) -> int:
    """Returns after how long the broker itself delivers a message again that was retried so often (rules 5.13)."""
    return RETRY_DELAYS_MS[min(max(0, reconsume_times) + _FIRST_REDELIVERY, len(RETRY_DELAYS_MS) - 1)]


def make_subscription_settings(group: GroupConfig) -> SubscriptionSettings:
    """Returns the settings for the members of a group. The first delivery counts as an attempt."""
    attempts = min(group.retry_max_times, RECONSUME_TIMES_MAX) + 1
    return SubscriptionSettings(max_attempts=attempts, fifo=group.consume_message_orderly)


CONSUME_TYPES = {
    "PUSH_CONSUMER": ConsumeType.PASSIVELY,
    "SIMPLE_CONSUMER": ConsumeType.ACTIVELY,
    # Apache's proxy refuses this type: it serves no pull RPC (rules 5.1).
    "PULL_CONSUMER": ConsumeType.ACTIVELY,
}
"""How consumers of ``apache.rocketmq.v2`` consume, by client type. Lite types are not supported."""


@dataclass(frozen=True)
class ClientProfile:
    """A client of ``apache.rocketmq.v2``: a producer of topics, or a consumer in one group."""

    channel: ClientChannel
    client_type: str
    topics: tuple[str, ...] = ()
    consumer: ConsumerData | None = None

    @property
    def is_recognized(self) -> bool:
        """Whether the broker accepts heartbeats of this type (rules 5.10)."""
        return self.client_type == "PRODUCER" or self.client_type in CONSUME_TYPES


def find_consume_type(client_type: str) -> ConsumeType:
    """Returns how a consumer of this type consumes. Raises InternalError for any other type (rules 5.7)."""
    try:
        return CONSUME_TYPES[client_type]
    except KeyError:
        raise InternalError(f"Client type is not consumer, type: {client_type}") from None
