"""What a consumer has read and its user has not taken yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from threading import RLock

import pyarrow as pa

from rmqpull_client.consumers.core.positions import Positions
from rmqpull_client.consumers.fetching import Fetcher
from rmqpull_client.model import MessageQueue

_WAIT_MS = 250
"""How long one wait for messages lasts. Then the consumer looks whether its queues have changed."""
Rows = tuple[MessageQueue, pa.RecordBatch]


class Inbox:
    """Rows that were read, queue by queue. The user's thread uses it; ``lock`` guards positions that others change."""

    def __init__(self, fetcher: Fetcher, positions: Positions, lock: RLock) -> None:
        self._fetcher = fetcher
        self._positions = positions
        self._lock = lock
        self._version = positions.version
        self._waiting: deque[Rows] = deque()
        self._is_closed = False

    def take(self, timeout_ms: int, row_max: int | None = None) -> Sequence[Rows]:
        """Takes rows, at most ``row_max`` if given, and moves positions behind them; nothing without rows in time."""
        until_s = time.monotonic() + timeout_ms / 1000
        while self._fill(until_s):
            with self._lock:
                self._drop_outdated()  # another thread may have lost the queues meanwhile
                if taken := self._take_waiting(row_max):
                    return taken
        return ()

    def pass_over(self, queue: MessageQueue, offset: int) -> None:
        """Moves a position behind offsets that have no messages, unless messages before it wait to be taken."""
        with self._lock:
            if self._positions.version == self._version and not any(own == queue for own, _ in self._waiting):
                self._positions.advance(queue, offset)

    def close(self) -> None:
        """Closes the connections of pulls. Nothing can be taken any more."""
        self._is_closed = True
        self._fetcher.close()

    def _fill(self, until_s: float) -> bool:
        """Reads until there are rows. Returns False when the time is over."""
        is_first = True
        while True:
            with self._lock:
                self._drop_outdated()
                positions = self._positions.list_readable()
            if self._waiting:
                return True
            left_ms = round((until_s - time.monotonic()) * 1000)
            if self._is_closed or (left_ms <= 0 and not is_first):
                return False
            is_first = False
            wait_ms = max(0, min(left_ms, _WAIT_MS))
            if not positions:
                time.sleep(wait_ms / 1000)
                continue
            step = self._fetcher.fetch(positions, wait_ms)
            self._waiting.extend((queue, batch) for queue, batches in step for batch in batches if batch.num_rows)

    def _take_waiting(self, row_max: int | None) -> list[Rows]:
        taken, count = list[Rows](), 0
        while self._waiting and (row_max is None or count < row_max):
            queue, batch = self._waiting.popleft()
            if row_max is not None and batch.num_rows > row_max - count:
                self._waiting.appendleft((queue, batch.slice(row_max - count)))
                batch = batch.slice(0, row_max - count)
            self._positions.advance(queue, batch.column("queueOffset")[-1].as_py() + 1)
            taken.append((queue, batch))
            count += batch.num_rows
        return taken

    def _drop_outdated(self) -> None:
        """Drops what was read for other positions."""
        if self._positions.version != self._version:
            self._version = self._positions.version
            self._waiting.clear()
            self._fetcher.restart()
