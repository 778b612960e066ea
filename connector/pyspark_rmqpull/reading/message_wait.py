"""Waiting for messages while a streaming query plans, in parked pulls of at most ``longPollingTimeoutMs`` each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.backlog import Backlog
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import BrokerClient

LOOK_INTERVAL_MS = 200
"""The shortest time between two looks at the broker while a query waits: each look costs a call."""


class MessageWait:
    """The wait of one call of ``latestOffset``: at most ``idleWaitMs`` after its creation."""

    def __init__(
        self, options: SourceOptions, client: Callable[[], BrokerClient], clock: Clock, look: Callable[[], Backlog]
    ) -> None:
        self._options = options
        self._client = client
        self._clock = clock
        self._look = look
        self._deadline_ms = clock.now_ms() + options.idle_wait_ms

    def wait_for_any(self, backlog: Backlog) -> Backlog:
        """Returns the backlog as soon as there is one, and an empty one when the time is over.

        A pull may return early without a message: after a reset of the group, or at a server that is too busy to park
        it. The wait continues then, because Spark would ask again at once.
        """
        while backlog.is_empty and (left_ms := self._left_ms) > 0:
            if not self._may_have_messages(backlog.next_offsets, left_ms):
                break
            backlog = self._look()
            if backlog.is_empty:
                self._pause(self._left_ms)
        return backlog

    def wait_for_enough(self, backlog: Backlog, delay_ms: Callable[[Backlog, int], int]) -> Backlog | None:
        """Returns the backlog when its batch is to run, and None when the time is over.

        ``delay_ms`` says how long the batch may still be delayed, from a backlog and the time of the clock.
        """
        while (delay := delay_ms(backlog, now_ms := self._clock.now_ms())) > 0:
            left_ms = min(delay, self._deadline_ms - now_ms)
            if left_ms <= 0:
                return None
            self._wait_for_more(backlog.ends, left_ms)
            backlog = self._look()
        return backlog

    @property
    def _left_ms(self) -> int:
        return self._deadline_ms - self._clock.now_ms()

    def _may_have_messages(self, offsets: Mapping[MessageQueue, int], left_ms: int) -> bool:
        """Waits for a message at these offsets. False when the time is over and none has arrived."""
        if not offsets:  # a pattern that matches no topic yet
            self._clock.sleep(left_ms)
            return True
        return any(self._pull(offsets, parked_ms) for parked_ms in self._options.flow.split_wait(left_ms))

    def _wait_for_more(self, ends: Mapping[MessageQueue, int], left_ms: int) -> None:
        """Waits for a message beyond the ends, and then for the rest of an interval, in which more may come."""
        begun_ms = self._clock.now_ms()
        if ends:
            self._pull(ends, min(left_ms, self._options.flow.long_polling_timeout_ms))
        self._pause(min(LOOK_INTERVAL_MS, left_ms) - (self._clock.now_ms() - begun_ms))

    def _pull(self, offsets: Mapping[MessageQueue, int], parked_ms: int) -> bool:
        options = self._options
        return self._client().wait_for_messages(options.pull_group, offsets, parked_ms, options.message_filter)

    def _pause(self, left_ms: int) -> None:
        if left_ms > 0:
            self._clock.sleep(min(LOOK_INTERVAL_MS, left_ms))
