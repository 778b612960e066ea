"""Locks on message queues: only one member of an ordered group consumes a queue (rules 3.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.shares import ANYBODY, Holder, Shares

LOCK_MAX_LIVE_TIME_MS = 60_000
"""``rocketmq.broker.rebalance.lockMaxLiveTime``: how long a lock is valid without renewal."""
LOCKS_MAX = 100_000
"""Locks that one connection holds, if it is alone; see :mod:`rmqpull_broker.core.shares`. Expired locks count until a
share is used up."""


class QueueLock(NamedTuple):
    """The client that holds a queue, its connection, and when it was renewed last (milliseconds since the epoch)."""

    client_id: str
    last_update_ms: int
    holder: Holder = ANYBODY

    def is_expired(self, now_ms: int) -> bool:
        """Whether another client may take the lock. At exactly 60 s it is still valid."""
        return now_ms - self.last_update_ms > LOCK_MAX_LIVE_TIME_MS


class QueueLocks:
    """The locks of all groups, like Apache's RebalanceLockManager. They are only in memory.

    Neither the group nor the queue of a lock need to exist.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, QueueLock]] = {}
        self._shares = Shares(LOCKS_MAX)
        self._no_expired_until_ms = 0

    def lock_batch(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int, holder: Holder = ANYBODY
    ) -> frozenset[MessageQueue]:
        """Locks those of ``queues`` that are free, expired or the client's own, and returns them.

        Leaves out queues of other clients. Raises TooManyRequests, and then locks nothing, when the share of ``holder``
        is used up.
        """
        locks = self._groups.get(group, {})
        wanted = frozenset(queues)
        gained = frozenset(
            queue for queue in wanted if (lock := locks.get(queue)) is None or _may_take(lock, client_id, now_ms)
        )
        self._make_room(len(gained - locks.keys()), now_ms, holder)
        for queue in gained:
            self._drop(group, queue)
            self._groups.setdefault(group, {})[queue] = QueueLock(client_id, now_ms, holder)
        self._shares.take(holder, len(gained))
        return gained

    def unlock_batch(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Unlocks those of ``queues`` that the client holds."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                self._drop(group, queue)

    def has_locks(self, group: str, now_ms: int) -> bool:
        """Whether a client holds a queue of the group. Then the group consumes in order (rules 3.10.3)."""
        return any(not lock.is_expired(now_ms) for lock in self._groups.get(group, {}).values())

    def list_locks(self, group: str, now_ms: int) -> dict[MessageQueue, QueueLock]:
        """Returns the valid locks of a group."""
        locks = self._groups.get(group, {})
        return {queue: lock for queue, lock in locks.items() if not lock.is_expired(now_ms)}

    def groups(self) -> list[str]:
        """Returns the names of groups with locks, expired ones included, sorted."""
        return sorted(self._groups)

    def _make_room(self, count: int, now_ms: int, holder: Holder) -> None:
        if count == 0 or self._shares.allows(holder, count):
            return
        if now_ms >= self._no_expired_until_ms:
            self._drop_expired(now_ms)
        if not self._shares.allows(holder, count):
            raise TooManyRequests(
                f"{count} queues cannot be locked: locked are {self._shares.describe(holder)}; "
                "unlock some or lock again later"
            )

    def _drop_expired(self, now_ms: int) -> None:
        """Drops all expired locks, and finds out until when there can be no further one."""
        oldest_ms = now_ms
        for group in self.groups():
            for queue, lock in list(self._groups[group].items()):
                if lock.is_expired(now_ms):
                    self._drop(group, queue)
                else:
                    oldest_ms = min(oldest_ms, lock.last_update_ms)
        self._no_expired_until_ms = oldest_ms + LOCK_MAX_LIVE_TIME_MS + 1

    def _drop(self, group: str, queue: MessageQueue) -> None:
        """Forgets a lock, if there is one."""
        locks = self._groups.get(group, {})
        lock = locks.pop(queue, None)
        if lock is not None:
            self._shares.give_back(lock.holder)
            if not locks:
                del self._groups[group]


def _may_take(lock: QueueLock, client_id: str, now_ms: int) -> bool:
    return lock.client_id == client_id or lock.is_expired(now_ms)
