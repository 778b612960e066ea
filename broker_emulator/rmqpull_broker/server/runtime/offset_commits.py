"""Consumer offsets of one-way requests: they count at once, and are stored together (rules 3.5.1).

Java's consumers repeat all of their offsets every five seconds, each as a request that expects no response, and send
them with each pull. Apache's broker keeps them in memory and writes them every five seconds. Here those that come while
the log is busy are stored with its next write, and an offset that is already stored is not written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import keep_offsets
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.runtime.group_commit import GroupCommit

OffsetTable = Mapping[tuple[str, MessageQueue], int]
"""Consumer offsets by group and queue."""

_NOTHING: OffsetTable = MappingProxyType({})
_logger = logging.getLogger(__name__)


class OffsetCommits:
    """The offsets that are not stored yet. Belongs to the event loop."""

    def __init__(self, state: BrokerState, group_commit: GroupCommit) -> None:
        self._state = state
        self._group_commit = group_commit
        self._waiting: dict[tuple[str, MessageQueue], int] = {}
        self._being_stored: OffsetTable = _NOTHING
        self._writer: asyncio.Task[None] | None = None

    def find(self, group: str, queue: MessageQueue) -> int | None:
        """Returns an offset that is not stored yet, or None."""
        key = group, queue
        return self._waiting.get(key, self._being_stored.get(key))

    def put(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Takes an offset that may be stored now. Without an error: the client expects no response."""
        key = group, queue
        if self.find(group, queue) is None and self._state.consumer_offsets.get(key, -1) == offset:
            return
        self._waiting[key] = offset
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._store())

    def drop(self, group: str, queue: MessageQueue) -> None:
        """Forgets an offset that waits, since a newer one is stored in another way."""
        self._waiting.pop((group, queue), None)

    async def _store(self) -> None:
        try:
            while self._waiting:
                offsets, self._waiting = self._waiting, {}
                self._being_stored = offsets
                try:
                    await self._group_commit.execute(partial(keep_offsets, offsets=offsets))
                except BrokerError as error:
                    _logger.warning("%d consumer offsets are not stored: %s", len(offsets), error)
                finally:
                    self._being_stored = _NOTHING
        finally:
            self._writer = None

    async def close(self) -> None:
        """Returns when all offsets are stored."""
        if self._writer is not None:
            await asyncio.wait({self._writer})
