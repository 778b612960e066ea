"""What a replay of the log applies: groups of facts, and single messages many sends at a time."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log.rows import LoggedRows

ROWS_TOGETHER_MAX = 4096
"""Records of single messages that are applied together."""

Apply = Callable[[list[Fact], LogRange], None]


@contextlib.contextmanager
def no_search_for_cycles() -> Iterator[None]:
    """A replay makes a tuple for each message and no cycle: to search them for cycles would take half of its time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class RowsTogether:
    """Collects records of single messages, and applies those of each queue as one: their order among queues is free."""

    def __init__(self, apply: Apply, segment: int) -> None:
        self._apply = apply
        self._segment = segment
        self._by_queue: dict[MessageQueue, list[bytes]] = {}
        self._count = self._begin = self._end = 0

    def add(self, lone: tuple[MessageQueue, bytes], position: int, size: int) -> None:
        """Takes in queue and rows of the record of ``size`` bytes at that log position."""
        if not self._count:
            self._begin = position
        self._end = position + size
        queue, data = lone
        self._by_queue.setdefault(queue, []).append(data)
        self._count += 1
        if self._count == ROWS_TOGETHER_MAX:
            self.apply()

    def apply(self) -> None:
        """Applies what was collected."""
        for queue, data in self._by_queue.items():
            self._apply([LoggedRows(queue, *data)], LogRange(self._segment, self._begin, self._end))
        self._by_queue.clear()
        self._count = 0
