"""Consumer offsets of one-way requests: they take effect at once, and are stored together (rules 3.5.1).

Java's consumers repeat all of their offsets every five seconds, each as a request that expects no response, and also
with each pull. Apache's broker keeps them in memory and writes them every five seconds. Here those that arrive while
the log is busy are stored with its next write, and an offset that is already stored is not written again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import NO_OFFSET, UnstoredOffset, keep_offsets
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.runtime.group_commit import GroupCommit

Key = tuple[str, MessageQueue]
OffsetTable = Mapping[Key, UnstoredOffset]
"""Consumer offsets by group and queue."""

_NOTHING: OffsetTable = MappingProxyType({})
_logger = logging.getLogger(__name__)


class UnstoredOffsets:
    """The offsets that are not stored yet. Belongs to the event loop.

    An offset that no caller waits for is dropped if one that a caller waited for was stored meanwhile.
    """

    def __init__(self, state: BrokerState, group_commit: GroupCommit) -> None:
        self._state = state
        self._group_commit = group_commit
        self._waiting: dict[Key, UnstoredOffset] = {}
        self._being_stored: OffsetTable = _NOTHING
        self._updates: Counter[Key] = Counter()
        # The last offset that arrived for a queue, until it is stored.
        self._newest: dict[Key, int] = {}
        self._writer: asyncio.Task[None] | None = None
        self._lacks_room = False

    def find(self, group: str, queue: MessageQueue) -> int | None:
        """Returns the offset that no caller waits for and that is not stored yet, or None."""
        key = group, queue
        found = self._waiting.get(key, self._being_stored.get(key))
        return None if found is None else found.offset

    def put(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Takes an offset that may be stored now. Raises nothing, because the client expects no response."""
        key = group, queue
        waiting = self._waiting.get(key)
        replaces = self._find_newest(key) if waiting is None else waiting.replaces
        if waiting is None and replaces == offset:
            return
        self._waiting[key] = UnstoredOffset(offset, replaces)
        self._newest[key] = offset
        self._start()

    def _start(self) -> None:
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._store())

    def _find_newest(self, key: Key) -> int:
        """Returns the offset that will be stored before one that arrives now."""
        return self._newest.get(key, self._state.consumer_offsets.get(key, NO_OFFSET))

    def begin_update(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Notes an offset that a caller waits for. It replaces those that have arrived before it."""
        key = group, queue
        self._waiting.pop(key, None)
        self._updates[key] += 1
        self._newest[key] = offset

    def end_update(self, group: str, queue: MessageQueue) -> None:
        """Ends what :meth:`begin_update` began: the offset is stored, or was refused."""
        self._updates[group, queue] -= 1
        self._settle([(group, queue)])
        if (group, queue) in self._waiting:
            self._start()

    def _settle(self, keys: Iterable[Key]) -> None:
        """Forgets the newest offsets of queues for which nothing is left to store."""
        for key in keys:
            if not self._updates[key]:
                del self._updates[key]
                if key not in self._waiting and key not in self._being_stored:
                    self._newest.pop(key, None)

    def _take_ready(self) -> OffsetTable:
        """Takes what may be stored now: offsets that arrived after an update wait for it."""
        ready = {key: entry for key, entry in self._waiting.items() if not self._updates[key]}
        for key in ready:
            del self._waiting[key]
        return ready

    async def _store(self) -> None:
        try:
            while offsets := self._take_ready():
                self._being_stored = offsets
                try:
                    self._report(await self._group_commit.execute(partial(keep_offsets, offsets=offsets)))
                except BrokerError as error:
                    _logger.warning("%d consumer offsets are not stored: %s", len(offsets), error)
                finally:
                    self._being_stored = _NOTHING
                    self._settle(offsets)
        finally:
            self._writer = None

    def _report(self, refusal: BrokerError | None) -> None:
        """Logs only once that there is no room for offsets, because consumers send them again and again."""
        if refusal is not None and not self._lacks_room:
            _logger.warning("consumer offsets are not stored: %s", refusal)
        self._lacks_room = refusal is not None

    async def close(self) -> None:
        """Returns when all offsets are stored."""
        if self._writer is not None:
            await asyncio.wait({self._writer})
