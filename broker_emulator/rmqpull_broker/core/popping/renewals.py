"""Renewals: the broker extends deliveries until their client acknowledges them (rules 5.12.3).

A client that requests this does not renew receipts itself: each delivery has a minute, which the broker extends while
the client is connected. The receipts are kept in memory only: after a restart, their messages become visible again.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.clients.settings import find_redelivery_delay_ms
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.popping.receipts import Receipt

FIRST_INVISIBLE_MS = 60_000
"""``defaultInvisibleTimeMills``: the invisible time of a delivery that is renewed, whatever the client asked for."""
CHECK_INTERVAL_MS = 5_000
"""``renewSchedulePeriodMillis``."""
AHEAD_MS = 10_000
"""``renewAheadTimeMillis``: a receipt is renewed when it has no more than this left."""
INVISIBLE_MS = (60_000, 180_000, 300_000, 600_000, 1_800_000, 3_600_000)
"""The invisible time that each renewal gives. The last one applies to all later renewals."""
RENEWED_MS_MAX = 3 * 3_600_000
"""``renewMaxTimeMillis``: a message is redelivered if its client has not acknowledged it after this time."""
TRIES_MAX = 3
"""``maxRenewRetryTimes``: consecutive failed renewals before the receipt is forgotten."""
RELEASED_MS = 1_000
"""``invisibleTimeMillisWhenClear``: redelivery delay for messages whose client has disconnected."""
RENEWALS_MAX = 200_000
"""The most receipts that are kept. Messages beyond it become visible again after FIRST_INVISIBLE_MS."""
_HEAP_MIN = 64


class Holder(NamedTuple):
    """Who got a message: a client, in one of its groups."""

    client_id: str
    group: str


class _Place(NamedTuple):
    """Identifies a message of a holder. A topic's queues and those of its retries are not distinguished, as in Apache's
    proxy (rules 5.12.3)."""

    message_id: str
    broker_name: str
    queue_id: int
    queue_offset: int


@dataclass(slots=True, eq=False)
class Renewal:
    """A delivery that is renewed. ``topic`` is the one that the client named; ``receipt`` is the newest one.

    ``popped_ms`` is the pop time in its first receipt. ``begun_ms`` is the same moment by the clock of renewals, which
    nobody can set, and ``visible_ms`` is when the message becomes visible again by that clock. ``count`` counts
    renewals, and ``failures`` the failed tries since the last one. ``is_kept`` is false once the message was
    acknowledged or forgotten.
    """

    holder: Holder
    message_id: str
    topic: str
    receipt: Receipt
    reconsume_times: int
    popped_ms: int
    begun_ms: int
    visible_ms: int
    count: int = 0
    failures: int = 0
    is_kept: bool = True

    @property
    def place(self) -> _Place:
        """What distinguishes the message from others of its holder."""
        return _find_place(self.message_id, self.receipt)


class Step(NamedTuple):
    """What to do with a due message: its next invisible time, and whether it is the last, so that it is forgotten."""

    invisible_ms: int
    is_last: bool


def plan_step(renewal: Renewal, group: GroupConfig, now_ms: int) -> Step | None:
    """Returns what to do with a due receipt of a group; None to forget it."""
    if renewal.failures >= TRIES_MAX or renewal.visible_ms <= now_ms:
        return None
    if now_ms - renewal.begun_ms < RENEWED_MS_MAX:
        return Step(INVISIBLE_MS[min(renewal.count, len(INVISIBLE_MS) - 1)], is_last=False)
    return Step(find_redelivery_delay_ms(group, renewal.reconsume_times), is_last=True)


class Renewals:
    """The kept receipts, by holder and in the order in which they are due."""

    def __init__(self) -> None:
        self._by_holder: dict[Holder, dict[_Place, Renewal]] = {}
        self._count = 0
        self._due: list[tuple[int, int, Renewal]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return self._count

    def keep(
        self, holder: Holder, message_id: str, topic: str, receipt: Receipt, reconsume_times: int = 0, ahead_ms: int = 0
    ) -> Renewal | None:
        """Keeps the receipt of a new delivery, in place of an older one. Returns None above RENEWALS_MAX.

        ``ahead_ms`` says by how much the clock of renewals is ahead of the clock used in receipts.
        """
        self.take(holder, message_id, receipt)
        if self._count >= RENEWALS_MAX:
            return None
        begun_ms, visible_ms = receipt.pop_time_ms + ahead_ms, receipt.visible_ms + ahead_ms
        renewal = Renewal(
            holder, message_id, topic, receipt, reconsume_times, receipt.pop_time_ms, begun_ms, visible_ms
        )
        self._by_holder.setdefault(holder, {})[renewal.place] = renewal
        self._count += 1
        self._expect(renewal, visible_ms - AHEAD_MS)
        return renewal

    def take(self, holder: Holder, message_id: str, receipt: Receipt) -> Renewal | None:
        """Forgets a message, given any of its receipts, and returns what was kept; None if nothing was."""
        renewal = self._by_holder.get(holder, {}).get(_find_place(message_id, receipt))
        if renewal is not None:
            self.forget(renewal)
        return renewal

    def drop(self, holder: Holder, message_id: str, receipt: Receipt) -> None:
        """Forgets the delivery that a receipt names, but not a newer one of the same message."""
        renewal = self._by_holder.get(holder, {}).get(_find_place(message_id, receipt))
        if renewal is not None and renewal.popped_ms == receipt.pop_time_ms:
            self.forget(renewal)

    def take_all(self, is_gone: Callable[[Holder], bool]) -> list[Renewal]:
        """Forgets all messages of some holders, and returns what was kept."""
        gone = [holder for holder in self._by_holder if is_gone(holder)]
        left = [renewal for holder in gone for renewal in self._by_holder[holder].values()]
        for renewal in left:
            self.forget(renewal)
        return left

    def list_due(self, now_ms: int, limit: int) -> list[Renewal]:
        """Returns what is due now, the earliest first. Each is returned only once: call :meth:`renew`, :meth:`fail` or
        :meth:`forget` for it.
        """
        found = list[Renewal]()
        while self._due and self._due[0][0] <= now_ms and len(found) < limit:
            _, _, renewal = heapq.heappop(self._due)
            if renewal.is_kept:
                found.append(renewal)
        return found

    def renew(self, renewal: Renewal, receipt: Receipt, ahead_ms: int = 0) -> None:
        """Sets the new receipt of a message, even if it was acknowledged meanwhile: that acknowledgement needs it.

        ``ahead_ms`` is that of :meth:`keep`.
        """
        renewal.receipt = receipt
        renewal.visible_ms = receipt.visible_ms + ahead_ms
        renewal.count += 1
        renewal.failures = 0
        self._expect(renewal, renewal.visible_ms - AHEAD_MS)

    def fail(self, renewal: Renewal, now_ms: int) -> None:
        """Counts a failed try. The next try is at the next check, not in this one."""
        renewal.failures += 1
        self._expect(renewal, now_ms + 1)

    def forget(self, renewal: Renewal) -> None:
        """Stops renewing a receipt."""
        if not renewal.is_kept:
            return
        renewal.is_kept = False
        self._count -= 1
        of_holder = self._by_holder[renewal.holder]
        del of_holder[renewal.place]
        if not of_holder:
            del self._by_holder[renewal.holder]
        # Forgotten entries leave the heap when they reach its top, or when they make up most of it.
        if len(self._due) > max(_HEAP_MIN, 2 * self._count):
            self._due = [entry for entry in self._due if entry[2].is_kept]
            heapq.heapify(self._due)

    def _expect(self, renewal: Renewal, due_ms: int) -> None:
        if renewal.is_kept:
            heapq.heappush(self._due, (due_ms, next(self._numbers), renewal))


def _find_place(message_id: str, receipt: Receipt) -> _Place:
    return _Place(message_id, receipt.broker_name, receipt.queue_id, receipt.queue_offset)
