"""Waiting for a topic that does not exist yet."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from pyspark_rmqpull.clock import Clock
from rmqpull_client.errors import TopicMissing

PAUSE_MS = 500
"""Between two looks."""

_T = TypeVar("_T")
_logger = logging.getLogger(__name__)


def wait_for_topic(look: Callable[[], _T], wait_ms: int, clock: Clock) -> _T:
    """What ``look`` gives, once it no longer misses a topic or a queue: option ``waitForTopic``.

    Raises TopicMissing when ``wait_ms`` are over, and at once what else ``look`` raises.
    """
    gives_up_ms = clock.now_ms() + wait_ms
    is_told = False
    while True:
        try:
            return look()
        except TopicMissing as missing:
            left_ms = gives_up_ms - clock.now_ms()
            if left_ms <= 0:
                waited = f" It was waited for during {wait_ms} ms, as option waitForTopic says." if wait_ms else ""
                raise TopicMissing(f"{missing}{waited}") from None
            if not is_told:
                _logger.info("Waiting for at most %d ms: %s", wait_ms, missing)
                is_told = True
        clock.sleep(min(PAUSE_MS, left_ms))
