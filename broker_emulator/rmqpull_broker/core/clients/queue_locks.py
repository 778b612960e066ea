"""Locks on message queues: only one member of an ordered group consumes a queue (rules 3.8)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.shares import ANYBODY, Holder, Shares
from rmqpull_broker.core.steps import Steps, walk

LOCK_MAX_LIVE_TIME_MS = 60_000
"""``rocketmq.broker.rebalance.lockMaxLiveTime``: how long a lock is valid without renewal."""
LOCKS_MAX = 100_000
"""The most locks that a lone connection may hold; see :mod:`rmqpull_broker.core.shares`. Expired locks are counted
until a share is used up."""


class QueueLock(NamedTuple):
    """The client that holds a queue, its connection, and when it was renewed last (milliseconds since the epoch)."""

    client_id: str
    last_update_ms: int
    holder: Holder = ANYBODY

    def is_expired(self, now_ms: int) -> bool:
        """Whether another client may take the lock. At exactly 60 s it is still valid."""
        return now_ms - self.last_update_ms > LOCK_MAX_LIVE_TIME_MS


class QueueLocks:
    """The locks of all groups, like Apache's RebalanceLockManager. They are in memory only.

    Neither the group nor the queue of a lock needs to exist.
    """

    def __init__(self) -> None:
        self._groups: dict[str, dict[MessageQueue, QueueLock]] = {}
        self._shares = Shares(LOCKS_MAX)
        self._no_expired_until_ms = 0

    def lock_in_steps(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int, holder: Holder = ANYBODY
    ) -> Steps[list[MessageQueue]]:
        """Locks those of ``queues`` that are free, expired or the client's own, and returns them.

        Leaves out queues of other clients, also those that they lock between two steps. Raises TooManyRequests, and
        then locks nothing, when the share of ``holder`` is used up.
        """
        wanted, missing = dict[MessageQueue, None](), 0
        for piece in walk(queues):
            locks = self._groups.get(group, {})
            new = dict.fromkeys(queue for queue in piece if queue not in wanted)
            missing += sum(queue not in locks for queue in new)
            wanted |= new
            yield
        self._make_room(missing, now_ms, holder)
        gained: list[MessageQueue] = []
        for piece in walk(wanted):
            gained += self._lock(group, client_id, piece, now_ms, holder)
            yield
        return gained

    def _lock(
        self, group: str, client_id: str, queues: Iterable[MessageQueue], now_ms: int, holder: Holder
    ) -> list[MessageQueue]:
        locks, gained = self._groups.setdefault(group, {}), list[MessageQueue]()
        for queue in queues:
            lock = locks.get(queue)
            if lock is None or _may_take(lock, client_id, now_ms):
                if lock is not None:
                    self._shares.give_back(lock.holder)
                locks[queue] = QueueLock(client_id, now_ms, holder)
                gained.append(queue)
        self._shares.take(holder, len(gained))
        if not locks:
            del self._groups[group]
        return gained

    def unlock_in_steps(self, group: str, client_id: str, queues: Iterable[MessageQueue]) -> Steps[None]:
        """Unlocks like :meth:`unlock_batch`."""
        for piece in walk(queues):
            self.unlock_batch(group, client_id, piece)
            yield

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
                f"{count} queues cannot be locked: the locks in use are {self._shares.describe(holder)}; "
                "unlock some or try again later"
            )

    def _drop_expired(self, now_ms: int) -> None:
        """Drops all expired locks, and finds the time before which no other lock can expire."""
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
