"""Locks on message queues: only one member of an ordered group consumes a queue (rules 3.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import MessageQueue

LOCK_MAX_LIVE_TIME_MS = 60_000
"""``rocketmq.broker.rebalance.lockMaxLiveTime``: how long a lock is valid without renewal."""
LOCKS_MAX = 100_000
"""Locks of all groups. Expired locks count until the limit is reached."""


class QueueLock(NamedTuple):
    """The client that holds a queue, and the time of its last renewal (milliseconds since the epoch)."""

    client_id: str
    last_update_ms: int

    def is_expired(self, now_ms: int) -> bool:
        """Whether another client may take the lock. At exactly 60 s it is still valid."""
        return now_ms - self.last_update_ms > LOCK_MAX_LIVE_TIME_MS


class QueueLocks:
    """The locks of all groups, like Apache's RebalanceLockManager. They are only in memory.

    Neither the group nor the queue of a lock need to exist.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, QueueLock]] = {}

    def lock_batch(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int
    ) -> frozenset[MessageQueue]:
        """Locks those of ``queues`` that are free, expired or the client's own, and returns them.

        Leaves out queues of other clients. Raises TooManyRequests, and then locks nothing, above LOCKS_MAX locks.
        """
        locks = self._groups.get(group, {})
        wanted = frozenset(queues)
        gained = frozenset(
            queue for queue in wanted if (lock := locks.get(queue)) is None or _may_take(lock, client_id, now_ms)
        )
        self._make_room(len(gained - locks.keys()), now_ms)
        if gained:
            self._groups.setdefault(group, {}).update({queue: QueueLock(client_id, now_ms) for queue in gained})
        return gained

    def unlock_batch(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> None:
        """Unlocks those of ``queues`` that the client holds."""
        locks = self._groups.get(group, {})
        for queue in queues:
            lock = locks.get(queue)
            if lock is not None and lock.client_id == client_id:
                del locks[queue]
        if not locks:
            self._groups.pop(group, None)

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

    def _make_room(self, count: int, now_ms: int) -> None:
        if count == 0 or self._count() + count <= LOCKS_MAX:
            return
        for group in self.groups():
            self._groups[group] = self.list_locks(group, now_ms)
            if not self._groups[group]:
                del self._groups[group]
        if self._count() + count > LOCKS_MAX:
            raise TooManyRequests(f"{LOCKS_MAX} queues are locked already, the max; unlock some or lock again later")

    def _count(self) -> int:
        return sum(map(len, self._groups.values()))


def _may_take(lock: QueueLock, client_id: str, now_ms: int) -> bool:
    return lock.client_id == client_id or lock.is_expired(now_ms)
