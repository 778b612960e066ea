"""A request of a producer: its rows, its place, and what happens to it until it is stored or given up."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from rmqpull_client.errors import RmqpullError
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.away import TimeLimit

BATCH_COST = 64
"""What a batch counts as, of the requests in flight at a broker; a single message counts as one."""
HALVINGS_MAX = 13
"""How often a refused batch is halved: 4,000 rows become single ones."""
INTERVAL_MAX_S = 1.0
"""The longest pause before a retry."""


class Outcome(Enum):
    """What a response, or its absence, means for a request."""

    STORED = auto()
    ILLEGAL = auto()
    """The broker refuses a message in it."""
    RETRY = auto()
    """It may be stored later, or on another broker."""
    BUSY = auto()
    """As RETRY, and the broker has too much to do."""
    LOST = auto()
    """The broker did not respond: it is away."""
    MOVED = auto()
    """The broker does not have the queue."""
    REFUSED = auto()
    """It will never be stored."""


@dataclass(frozen=True)
class SendLimits:
    """The limits of one request, retries included, in seconds."""

    timeout_s: float
    retries_max: int | None
    interval_s: float
    away_s: float = 0.0
    """The limit while the broker is away."""


class Content(Protocol):
    """The messages of a request."""

    @property
    def row_count(self) -> int:
        """The number of messages."""

    @property
    def rows(self) -> Iterable[int]:
        """The numbers of their rows in the call."""

    def halve(self) -> Sequence[Content]:
        """Returns the first and the second half."""


class SendCall:
    """The rows of one call: done when no request is left, or one has failed."""

    def __init__(self) -> None:
        self.open_count = 0
        self.reasons: dict[int, str] = {}
        """Why rows were refused, by row."""
        self.error: RmqpullError | None = None

    @property
    def is_done(self) -> bool:
        return self.open_count == 0 or self.error is not None


@dataclass(eq=False)
class SendRequest:
    """One request: rows of one topic for one queue."""

    call: SendCall
    topic: str
    queues: Sequence[MessageQueue]
    """The writable queues of the topic. A request that is not ordered may go to any of them."""
    ordered_queue: MessageQueue | None
    content: Content
    halvings: int = 0
    queue: MessageQueue | None = None
    """The queue of this attempt."""
    retries: int = 0
    limit: TimeLimit | None = None
    """None: it was not sent yet."""
    attempt_until_s: float = 0.0
    """When the broker counts as away, if it has not responded to this attempt."""
    not_before_s: float = 0.0
    was_away: bool = False
    """Whether the broker of the last attempt did not respond."""
    error: RmqpullError | None = None
    """What went wrong with the last attempt."""

    @property
    def is_batch(self) -> bool:
        """Whether it has several messages."""
        return self.content.row_count > 1

    @property
    def cost(self) -> int:
        return BATCH_COST if self.is_batch else 1
