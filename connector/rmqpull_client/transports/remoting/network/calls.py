"""A request of an exchange, with its attempts and its time limits."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from rmqpull_client.errors import RmqpullError
from rmqpull_client.transports.away import TimeLimit
from rmqpull_client.transports.remoting.network.attempts import Attempts
from rmqpull_client.transports.remoting.network.cluster import Place, Target
from rmqpull_proto.remoting.command import RemotingCommand


@dataclass(eq=False)
class Call:
    """One request and its attempts. A *try* sends it to each place of its target once, until one responds."""

    target: Target
    command: RemotingCommand
    accepted: Collection[int]
    may_repeat: bool
    limit: TimeLimit
    is_fixed: bool
    """Whether its deadline is fixed. Otherwise its time begins when somebody waits for it."""
    attempts: Attempts
    pauses_s: Iterator[float | None]
    silence_s: float = math.inf
    """How long a proxy may take for one attempt."""
    response_bytes: int = 0
    """An estimate of the largest response, in bytes."""
    response: RemotingCommand | None = None
    place: Place | None = None
    """Who responded."""
    error: RmqpullError | None = None
    due_s: float = 0.0
    until_s: float = 0.0
    connects: int = 0
    was_stale: bool = False
    failed: set[str] = field(default_factory=set)

    @property
    def is_done(self) -> bool:
        """Whether there is a response or an error."""
        return self.response is not None or self.error is not None

    @property
    def deadline_s(self) -> float:
        """Until when it is repeated, unless its servers are away."""
        return self.limit.deadline_s

    def renew(self, now_s: float) -> None:
        """Starts the time of a call now, unless its deadline is fixed."""
        if not self.is_fixed:
            self.delay(now_s - self.limit.since_s)

    def delay(self, seconds: float) -> None:
        """Moves its deadlines by time that does not count."""
        self.limit.shift(seconds)
        self.until_s += seconds

    def may_wait(self, now_s: float) -> bool:
        """Extends the deadline if its servers are away and may come back. Returns whether it did."""
        return self.attempts.is_away and self.limit.extend(now_s)

    def get_response(self) -> RemotingCommand:
        """Returns the response of a call that is done. Raises its error."""
        if self.error is not None:
            raise self.error
        assert self.response is not None
        return self.response
