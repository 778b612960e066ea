"""The settings of consumers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rmqpull_client.allocation.strategies import Averagely, Strategy
from rmqpull_client.errors import OptionError
from rmqpull_client.flow import DEFAULT_FLOW, Flow
from rmqpull_client.model import MessageQueue
from rmqpull_proto.columns import select_pulled

AUTO_COMMIT_INTERVAL_MS, AUTO_COMMIT_INTERVAL_MS_MIN = 5_000, 1_000
ConsumeFromWhere = Literal["CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET", "CONSUME_FROM_TIMESTAMP"]
QueueListener = Callable[[str, Sequence[MessageQueue], Collection[MessageQueue]], None]
"""Called with a topic, all of its queues and those that the consumer owns now, when these have changed. It is called
from the thread that sends heartbeats, so it must not take long."""


@dataclass(frozen=True)
class LitePullSettings:
    """The settings of a :class:`LitePullConsumer`, with the names and defaults of Java's, where it has them.

    Args:
        strategy: How the members of the group share the queues of a topic. All members must have the same.
        consume_from_where: Where to start in a queue without a consumer offset: at its end, at its beginning, or at the
            first message that was stored at ``consume_timestamp_ms`` or later.
        consume_timestamp_ms: Milliseconds since the epoch. None: 30 minutes before the start.
        auto_commit: Whether polls set the consumer offsets of what earlier polls have returned.
        auto_commit_interval_ms: The least time between two such polls, 1,000 or more.
        columns: What is read of a message: names of columns of ``rmqpull_client.PULLABLE_SCHEMA``. Empty: all of them
            but ``systemProperties``.
        flow: The limits of reading ahead.
        queue_listener: See ``QueueListener``.
    """

    strategy: Strategy = field(default_factory=Averagely)
    consume_from_where: ConsumeFromWhere = "CONSUME_FROM_LAST_OFFSET"
    consume_timestamp_ms: int | None = None
    auto_commit: bool = True
    auto_commit_interval_ms: int = AUTO_COMMIT_INTERVAL_MS
    columns: tuple[str, ...] = ()
    flow: Flow = DEFAULT_FLOW
    queue_listener: QueueListener | None = None

    def check(self) -> None:
        """Raises OptionError for a value that cannot be used."""
        if self.auto_commit_interval_ms < AUTO_COMMIT_INTERVAL_MS_MIN:
            raise OptionError(
                f"autoCommitIntervalMillis is {self.auto_commit_interval_ms}: use {AUTO_COMMIT_INTERVAL_MS_MIN} or more"
            )
        if self.consume_from_where not in ConsumeFromWhere.__args__:  # type: ignore[attr-defined]
            raise OptionError(
                f"consumeFromWhere is {self.consume_from_where!r}: use one of {', '.join(ConsumeFromWhere.__args__)}"  # type: ignore[attr-defined]
            )
        try:
            select_pulled(self.columns)
        except ValueError as error:
            raise OptionError(f"columns: {error}") from None
