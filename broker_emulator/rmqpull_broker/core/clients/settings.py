"""The settings that the server sends to clients, as plain data (rules 5.7.1)."""

from __future__ import annotations

from dataclasses import dataclass

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType
from rmqpull_broker.core.errors import InternalError
from rmqpull_broker.core.limits import RECONSUME_TIMES_MAX
from rmqpull_broker.core.model import CustomizedBackoff, ExponentialBackoff, GroupConfig

RECEIVE_BATCH_SIZE = 32
LONG_POLLING_TIMEOUT_MS = 20_000
PRODUCER_ATTEMPTS_MAX = 3
PRODUCER_BACKOFF = ExponentialBackoff(10, 1_000, 2.0)
RETRY_DELAYS_MS: tuple[int, ...] = tuple(
    1000 * seconds for seconds in (1, 5, 10, 30, *(60 * minutes for minutes in (*range(1, 11), 20, 30)), 3600, 7200)
)
"""Apache's CustomizedRetryPolicy: the delay before each further attempt. The last delay applies to all attempts after
it."""

DEFAULT_RETRY_POLICY = CustomizedBackoff(RETRY_DELAYS_MS)
_FIRST_REDELIVERY = 2
"""The broker's own redeliveries skip the first two delays, so the first one comes after 10 s (rules 5.12.3)."""
_GROWTHS_MAX = 64
"""After this many steps, a delay that grows at all has reached the longest one."""


@dataclass(frozen=True)
class PublishingSettings:
    """The settings of a producer. A maximum body size of 0 would forbid every message.

    The producers for Java and Node require an exponential back-off (rules 5.7.2).
    """

    max_body_size: int
    max_attempts: int = PRODUCER_ATTEMPTS_MAX
    backoff: ExponentialBackoff = PRODUCER_BACKOFF
    validate_message_type: bool = True


@dataclass(frozen=True)
class SubscriptionSettings:
    """The settings of a consumer."""

    max_attempts: int
    fifo: bool
    backoff: ExponentialBackoff | CustomizedBackoff = DEFAULT_RETRY_POLICY
    receive_batch_size: int = RECEIVE_BATCH_SIZE
    long_polling_timeout_ms: int = LONG_POLLING_TIMEOUT_MS


def find_redelivery_delay_ms(group: GroupConfig, reconsume_times: int) -> int:
    """Returns the delay before the broker itself redelivers a message with this many retries (rules 5.12.3)."""
    policy, times = group.retry_policy or DEFAULT_RETRY_POLICY, max(0, reconsume_times)
    if isinstance(policy, CustomizedBackoff):
        return policy.next_ms[min(times + _FIRST_REDELIVERY, len(policy.next_ms) - 1)]
    delay_ms: float = policy.initial_ms
    for _ in range(min(times, _GROWTHS_MAX)):
        delay_ms = min(delay_ms * policy.multiplier, policy.max_ms)
    return int(min(delay_ms, policy.max_ms))


def make_subscription_settings(group: GroupConfig) -> SubscriptionSettings:
    """Returns the settings for the members of a group. The first delivery counts as an attempt."""
    attempts = min(group.retry_max_times, RECONSUME_TIMES_MAX) + 1
    policy = group.retry_policy or DEFAULT_RETRY_POLICY
    return SubscriptionSettings(max_attempts=attempts, fifo=group.consume_message_orderly, backoff=policy)


CONSUME_TYPES = {
    "PUSH_CONSUMER": ConsumeType.PASSIVELY,
    "SIMPLE_CONSUMER": ConsumeType.ACTIVELY,
    # Apache's proxy refuses this type: it serves no pull RPC (rules 5.1).
    "PULL_CONSUMER": ConsumeType.ACTIVELY,
}
"""How consumers of ``apache.rocketmq.v2`` consume, by client type. Lite types are not supported."""


@dataclass(frozen=True)
class ClientProfile:
    """A client of ``apache.rocketmq.v2``: a producer of topics, or a consumer in one group.

    ``request_timeout_ms`` is how long it waits for responses.
    """

    channel: ClientChannel
    client_type: str
    topics: tuple[str, ...] = ()
    consumer: ConsumerData | None = None
    request_timeout_ms: int = 0

    @property
    def is_recognized(self) -> bool:
        """Whether the broker accepts heartbeats of this type (rules 5.10): those of other types are refused."""
        return self.client_type == "PRODUCER" or self.client_type in CONSUME_TYPES


def find_consume_type(client_type: str) -> ConsumeType:
    """Returns how a consumer of this type consumes. Raises InternalError for any other type (rules 5.7)."""
    try:
        return CONSUME_TYPES[client_type]
    except KeyError:
        raise InternalError(f"Client type is not consumer, type: {client_type}") from None
