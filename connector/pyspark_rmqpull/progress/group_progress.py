"""The consumer offsets of a query's group, for people and for lag tools. A query itself uses only its checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark_rmqpull.clock import Clock
from rmqpull_client.errors import BrokerUnavailable, RmqpullError
from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.stores import OffsetStore

TIMEOUT_MS = 2_000
"""How long setting offsets may delay planning. ``requestTimeoutMs`` is for requests that a query cannot do without."""
REFRESH_INTERVAL_MS = 60_000
"""How often an idle query sets its offsets again: a reset of the group, or a crash, may have undone them."""
LAST_ATTEMPTS = 3
LAST_RETRY_INTERVAL_MS = 200
PAUSE_FACTOR = 4
"""After a failure that took a second the next attempt is 4 s later, so attempts take a fifth of the time at most."""

_logger = logging.getLogger(__name__)


class GroupProgress:
    """Sets the consumer offsets of a group to what a query has finished. Without a store it does nothing.

    Spark calls ``commit`` for a batch only after it has planned the next one, and never for the last. But each planning
    starts from the end of the last finished batch (rules 7.2), and passes that end here. ``client_id`` names the query
    in the log.
    """

    def __init__(
        self, group: str | None, store: OffsetStore | None, request_timeout_ms: int, clock: Clock, client_id: str
    ) -> None:
        self._group = group
        self._store = store
        self._request_timeout_ms = request_timeout_ms
        self._clock = clock
        self._set: Mapping[MessageQueue, int] = {}
        self._tried: Mapping[MessageQueue, int] = {}
        self._other_writers = OtherWriters(group, client_id)
        self._refresh_at_ms = 0
        self._retry_at_ms = 0
        self._is_failing = False

    def set_offsets(self, offsets: Mapping[MessageQueue, int], *, is_last: bool = False) -> None:
        """Sets the offsets, unless they are set already. Never raises, because that would end the query (rules 7.6).

        ``is_last`` says that there is no next attempt, so this one takes as long as it needs.
        """
        if self._store is None or not offsets:
            return
        started_ms = self._clock.now_ms()
        if offsets == self._set and started_ms < self._refresh_at_ms:
            return
        if started_ms < self._retry_at_ms and not is_last:
            return
        try:
            before = (self._set_last if is_last else self._set_once)(self._store, offsets)
        except RmqpullError as error:
            self._tried = offsets
            ended_ms = self._clock.now_ms()
            self._retry_at_ms = ended_ms + PAUSE_FACTOR * (ended_ms - started_ms)
            self._log_failure(error)
        else:
            self._other_writers.check(before, self._set, self._tried, offsets)
            self._set = self._tried = offsets
            self._refresh_at_ms = self._clock.now_ms() + REFRESH_INTERVAL_MS
            self._is_failing = False

    def _set_once(self, store: OffsetStore, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        return store.set_offsets(offsets, min(TIMEOUT_MS, self._request_timeout_ms))

    def _set_last(self, store: OffsetStore, offsets: Mapping[MessageQueue, int]) -> Mapping[MessageQueue, int]:
        for attempt in range(1, LAST_ATTEMPTS + 1):
            try:
                return store.set_offsets(offsets, self._request_timeout_ms)
            except BrokerUnavailable:  # that attempt has already taken as long as a request may
                raise
            except RmqpullError:
                if attempt == LAST_ATTEMPTS:
                    raise
                self._clock.sleep(attempt * LAST_RETRY_INTERVAL_MS)
        raise AssertionError("the last attempt returns or raises")

    def _log_failure(self, error: RmqpullError) -> None:
        level = logging.DEBUG if self._is_failing else logging.WARNING
        _logger.log(level, "Cannot set the consumer offsets of group %s; the query retries: %s", self._group, error)
        self._is_failing = True


class OtherWriters:
    """Warns once when another query or consumer sets the offsets of the group too.

    The broker should have the offsets that this query has set last, or tried to set. Others come from a reset, which
    sets a queue once and is logged elsewhere, or from another query or consumer, which sets them again and again. So
    the warning waits for two different offsets of one queue. Before it has set offsets itself, a query cannot judge:
    those of the broker may be its own, from before a restart.
    """

    def __init__(self, group: str | None, client_id: str) -> None:
        self._group = group
        self._client_id = client_id
        self._seen: dict[MessageQueue, int] = {}
        self._is_logged = False

    def check(self, before: Mapping[MessageQueue, int], *own: Mapping[MessageQueue, int]) -> None:
        """``before`` is what the broker had; ``own`` is what this query set last, tried to set, and has set now."""
        set_last, *_ = own
        for queue, offset in before.items():
            if self._is_logged or queue not in set_last or offset in (offsets.get(queue) for offsets in own):
                continue
            if self._seen.setdefault(queue, offset) != offset:
                self._warn(queue, offset, set_last[queue])

    def _warn(self, queue: MessageQueue, offset: int, own_offset: int) -> None:
        self._is_logged = True
        _logger.warning(
            "Another query or consumer also sets the offsets of group %s: queue %s was at offset %d, and this query "
            "(client id %s) had set %d. No message is lost, because a query reads where its checkpoint says, but the "
            "offsets of the group show the progress of neither. Give each query and each consumer a consumerGroup of "
            "its own, or set commitOffsets to false for all but one. (In a self-join, each side may have its own "
            "reader; then nothing is wrong.)",
            self._group,
            queue,
            offset,
            self._client_id,
            own_offset,
        )
