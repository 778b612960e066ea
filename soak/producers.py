"""Producers on threads: they draw messages, send them again when a send fails, and record what is acknowledged."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from soak.ledger import Attempt, Ledger, body_of, digest_of
from soak.plan import PRICES, TAGS, Setting
from soak.servers import NotAnswered, Send, Workload

END_SECONDS_MAX = 30.0
RETRIES_MAX = 3
_LARGE_ONE_IN = 50
_SMALL_BYTES = 120


class Producers:
    """Sends until it is stopped. Each retry is an attempt of its own."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        setting: Setting,
        seed: str,
        ledger: Ledger,
        topics: Callable[[], Sequence[str]],
    ) -> None:
        self._setting = setting
        self._ledger = ledger
        self._topics = topics
        self._ended = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=(*work, random.Random(f"{seed}/{work.name}")), daemon=True)
            for work in workloads
        ]

    def start(self) -> None:
        """Starts the producers."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stops the producers. Returns when the last attempt has its response, or has failed."""
        self._ended.set()
        for thread in self._threads:
            thread.join(END_SECONDS_MAX)

    def _produce(self, name: str, send: Send, count_max: int, pause_s: float, dice: random.Random) -> None:
        number = 0
        while not self._ended.wait(pause_s):
            topic = dice.choice(self._topics())
            sizes = [self._draw_size(dice) for _ in range(dice.randrange(1, count_max + 1))]
            for retry in range(RETRIES_MAX + 1):
                keys = [f"{name}-{number + index}-{retry}" for index in range(len(sizes))]
                messages = [self._message(topic, key, size, dice) for key, size in zip(keys, sizes, strict=True)]
                self._ledger.begin([attempt for attempt, _ in messages])
                try:
                    send(self._ledger, topic, messages, dice)
                except NotAnswered:
                    if self._ended.wait(pause_s):
                        return
                else:
                    break
            number += len(sizes)

    def _draw_size(self, dice: random.Random) -> int:
        return self._setting.large_body_bytes if dice.randrange(_LARGE_ONE_IN) == 0 else _SMALL_BYTES

    def _message(self, topic: str, key: str, size: int, dice: random.Random) -> tuple[Attempt, bytes]:
        body = body_of(key, size)
        attempt = Attempt(key, topic, dice.choice(TAGS), dice.randrange(PRICES), digest_of(body), self._ledger.step)
        return attempt, body
