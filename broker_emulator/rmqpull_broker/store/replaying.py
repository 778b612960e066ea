"""What a replay of the log applies: groups of facts, and single messages many sends at a time."""

from __future__ import annotations

from collections.abc import Callable

from rmqpull_broker.core.facts import Fact
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.ports import LogRange
from rmqpull_broker.store.rows import LoggedRows

ROWS_TOGETHER_MAX = 4096
"""Records of single messages that are applied together."""

Apply = Callable[[list[Fact], LogRange], None]


class RowsTogether:
    """Collects records of single messages, and applies those of each queue as one: their order among queues is free."""

    def __init__(self, apply: Apply, segment: int) -> None:
        self._apply = apply
        self._segment = segment
        self._by_queue: dict[MessageQueue, list[bytes]] = {}
        self._count = 0
        self._range = (0, 0)

    def add(self, queue: MessageQueue, data: bytes, from_position: int, until_position: int) -> None:
        """``[from_position, until_position)`` is where the record lies."""
        self._range = (self._range[0] if self._count else from_position, until_position)
        self._by_queue.setdefault(queue, []).append(data)
        self._count += 1
        if self._count == ROWS_TOGETHER_MAX:
            self.apply()

    def apply(self) -> None:
        """Applies what was collected."""
        for queue, data in self._by_queue.items():
            self._apply([LoggedRows(queue, *data)], LogRange(self._segment, *self._range))
        self._by_queue.clear()
        self._count = 0
