"""Detects that the history of a queue was rewritten, by its witness: the last message that the query has passed.

When a micro-batch is planned, the message before its end becomes the witness of each queue. Before the query reads on,
it is compared with what the broker has there: when the query starts, after a lost connection, and when the end of a
queue falls. The witnesses of a micro-batch that an earlier run has not finished are compared, too. An idle query sends
no requests for this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.planning.offsets import QueueOffsets
from pyspark_rmqpull.planning.rewritten import Rewritten
from rmqpull_client.errors import RmqpullError
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.witness import PULLS_MAX, Witness

TIMEOUT_MS = 2_000
"""How long a look may delay planning. ``requestTimeoutMs`` is for requests that a query cannot do without."""
BUDGET_MS = 2
"""About how long the look at the witnesses of one micro-batch may take; if there are more queues, they take turns. With
1,000 queues, writing the offsets with all witnesses takes as long again."""
RENEWED_MIN = 2
"""The witnesses that each micro-batch may renew in any case."""
PAUSE_MS = 1_000
"""The pause after a look that nobody answered."""
PAUSE_FACTOR = 4
"""After a look that took a second, and that some broker did not answer, the next one is 4 s later."""


class History:
    """The witnesses of one query. ``client`` connects with a request timeout, and does not wait for absent servers."""

    def __init__(
        self, client: Callable[[int | None], BrokerClient], group: str, request_timeout_ms: int, clock: Clock
    ) -> None:
        self._client = client
        self._group = group
        self._timeout_ms = min(TIMEOUT_MS, request_timeout_ms)
        self._clock = clock
        self._planned_ms: int | None = None
        self._lost_connections: int | None = None
        self._is_first = True
        self._due: set[MessageQueue] = set()
        self._rewritten: dict[MessageQueue, Witness] = {}
        self._asks_again_ms = 0
        self._turns: dict[MessageQueue, int] = {}
        self._turn = 0
        self._renewed_max = self._compared_max = PULLS_MAX

    def compare(
        self, finished: QueueOffsets, bounds: Mapping[MessageQueue, Bounds], ends_seen: Mapping[MessageQueue, int]
    ) -> Rewritten:
        """Returns the queues whose messages are not those that the query has passed. Asks only what it must.

        ``ends_seen`` are the newest ends that the query has seen. Never raises.
        """
        known = finished.witnesses
        self._rewritten = {queue: seen for queue, seen in self._rewritten.items() if known.get(queue) == seen}
        self._mark_due(known, bounds, ends_seen)
        asked = {
            queue: known[queue].offset
            for queue in self._due
            # A queue without new messages is not read yet, so a later look compares it.
            if queue not in self._rewritten and self._has_news(queue, finished, known, bounds)
        }
        if asked:
            self._compare_now(known, self._choose(asked, self._compared_max))
        return Rewritten(frozenset(self._rewritten), known, self._planned_ms, self._find_offsets_at)

    def compare_unfinished(self, planned: QueueOffsets, read: Iterable[MessageQueue]) -> Rewritten:
        """Returns the queues whose messages are not those that an earlier run saw when it planned a micro-batch.

        ``planned`` is the end of that micro-batch, and ``read`` are the queues that it reads. The next comparison looks
        at all queues again, including those without an answer here. Never raises.
        """
        known = planned.witnesses
        asked = {queue: known[queue].offset for queue in read if queue in known}
        self._compare_now(known, self._choose(asked, self._compared_max))
        return Rewritten(frozenset(self._rewritten), known, self._planned_ms, self._find_offsets_at)

    @staticmethod
    def _has_news(
        queue: MessageQueue,
        finished: QueueOffsets,
        known: Mapping[MessageQueue, Witness],
        bounds: Mapping[MessageQueue, Bounds],
    ) -> bool:
        if queue not in bounds:
            return False
        low, high = bounds[queue]
        return high > finished.offsets.get(queue, high) and known[queue].offset >= low

    def _mark_due(
        self,
        known: Mapping[MessageQueue, Witness],
        bounds: Mapping[MessageQueue, Bounds],
        ends_seen: Mapping[MessageQueue, int],
    ) -> None:
        """Notes which witnesses must be compared: all at the start and after a lost connection, else if an end fell.

        If the transport cannot count lost connections, all are compared repeatedly, within the time that a renewal
        takes.
        """
        lost = self._client(None).lost_connections
        if self._is_first or lost is None or lost != self._lost_connections:
            self._due = set(known)
        self._compared_max = self._renewed_max if lost is None and not self._is_first else PULLS_MAX
        self._is_first = False
        self._lost_connections = lost
        self._due |= {queue for queue, seen in ends_seen.items() if queue in bounds and bounds[queue][1] < seen}
        self._due &= known.keys()
        # A deleted witness cannot be compared. A queue that is away stays due, because it may come back.
        self._due -= {queue for queue in self._due if queue in bounds and known[queue].offset < bounds[queue][0]}

    def _compare_now(self, known: Mapping[MessageQueue, Witness], asked: Mapping[MessageQueue, int]) -> None:
        found = self._look_at(asked)
        for queue, seen in found.items():
            self._due.discard(queue)
            if seen is not None and seen.contradicts(known[queue]):
                self._rewritten[queue] = known[queue]

    def renew(
        self, start: QueueOffsets, finished: QueueOffsets, ends: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, Witness]:
        """Returns the witnesses of a micro-batch with these ends. Never raises.

        A queue keeps its witness if it does not advance, if its witness was not compared yet, or if no broker returns a
        new one. A queue whose start was moved by a loss does not keep it.
        """
        kept = {queue: witness for queue, witness in finished.witnesses.items() if queue not in start.starts}
        passed = {
            queue: end - 1
            for queue, end in ends.items()
            if end > 0 and queue not in self._due and (queue in start.starts or end != finished.offsets.get(queue))
        }
        self._turn += 1
        found = self._look_at(self._choose(passed, self._renewed_max))
        self._turns |= dict.fromkeys(found, self._turn)
        self._planned_ms = int(time.time() * 1000)
        return kept | {queue: witness for queue, witness in found.items() if witness is not None}

    def _choose(self, offsets: Mapping[MessageQueue, int], count: int) -> Mapping[MessageQueue, int]:
        """The queues whose turn it is: those whose witness was renewed longest ago."""
        if len(offsets) <= count:
            return offsets
        return {queue: offsets[queue] for queue in sorted(offsets, key=lambda queue: self._turns.get(queue, 0))[:count]}

    def _look_at(self, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, Witness | None]:
        began_ms = self._clock.now_ms()
        if not offsets or began_ms < self._asks_again_ms:
            return {}
        try:
            found = self._client(self._timeout_ms).look_at(self._group, offsets)
        except RmqpullError:  # such as a server that does not say which protocol it speaks
            found = {}
        now_ms = self._clock.now_ms()
        took_ms = now_ms - began_ms
        if len(found) < len(offsets):
            self._asks_again_ms = now_ms + max(0 if found else PAUSE_MS, PAUSE_FACTOR * took_ms)
        fitting = len(offsets) * BUDGET_MS // max(took_ms, 1)  # a short look says little about a much larger one
        self._renewed_max = min(max(fitting, RENEWED_MIN), PULLS_MAX)
        return found

    def _find_offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        return self._client(None).find_offsets_at(times_ms, self._group)
