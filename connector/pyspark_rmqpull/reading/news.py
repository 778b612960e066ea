"""Waiting on the broker for messages, in pulls that none is parked longer than ``longPollingTimeoutMs``."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import BrokerClient

LOOK_INTERVAL_MS = 200
"""How often at most the broker is asked for its bounds while a query waits: each look costs a call."""


class News:
    """What a query that plans waits for."""

    def __init__(self, options: SourceOptions, client: Callable[[], BrokerClient], clock: Clock) -> None:
        self._options = options
        self._client = client
        self._clock = clock

    def may_have_come(self, offsets: Mapping[MessageQueue, int], wait_ms: int) -> bool:
        """Whether it is worth while to look for messages at these offsets; False after ``wait_ms`` without any."""
        if not offsets:  # a pattern that matches no topic yet
            self._clock.sleep(wait_ms)
            return True
        return any(self._pull(offsets, parked_ms) for parked_ms in self._options.flow.parked_pulls_ms(wait_ms))

    def let_come(self, ends: Mapping[MessageQueue, int], left_ms: int) -> None:
        """Waits for messages behind those that wait already, and then lets some more come."""
        begun_ms = self._clock.now_ms()
        if ends:
            self._pull(ends, min(left_ms, self._options.flow.long_polling_timeout_ms))
        self.rest(min(LOOK_INTERVAL_MS, left_ms) - (self._clock.now_ms() - begun_ms))

    def rest(self, left_ms: int) -> None:
        """Lets time pass between two looks, if any is left."""
        if left_ms > 0:
            self._clock.sleep(min(LOOK_INTERVAL_MS, left_ms))

    def _pull(self, offsets: Mapping[MessageQueue, int], parked_ms: int) -> bool:
        options = self._options
        return self._client().wait_for_messages(options.pull_group, offsets, parked_ms, options.message_filter)
