"""The group's progress, for people and lag tools; the checkpoint is the truth."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.errors import BrokerUnavailable, RmqpullError
from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.stores import OffsetStore

COMMIT_TIMEOUT_MS = 2_000
"""How long a commit may hold up planning. ``requestTimeoutMs`` is meant for what a query cannot go on without."""
COMMIT_AGAIN_MS = 60_000
"""An idle query sets its offsets anew after so long: a reset of the group, or a crash, may have undone them."""
LAST_COMMIT_ATTEMPTS = 3
LAST_COMMIT_PAUSE_MS = 200
REST_FACTOR = 4
"""A failed commit that took a second is tried again after four: trying takes a fifth of the time at most."""

_logger = logging.getLogger(__name__)


class GroupProgress:
    """Commits what Spark has finished. Without a store it does nothing. ``client_id`` names the query in the log.

    Spark tells of the end of a batch only when it has planned the next one, and never of the last; but each planning
    begins with the end of the last finished batch (rules 7.2), which is what comes here.
    """

    def __init__(
        self, group: str | None, store: OffsetStore | None, request_timeout_ms: int, clock: Clock, client_id: str
    ) -> None:
        self._group = group
        self._store = store
        self._request_timeout_ms = request_timeout_ms
        self._clock = clock
        self._committed: Mapping[MessageQueue, int] = {}
        self._tried: Mapping[MessageQueue, int] = {}
        self._others = OtherCommits(group, client_id)
        self._stale_at_ms = 0
        self._retry_at_ms = 0
        self._is_failing = False

    def commit(self, finished: QueueOffsets, *, is_last: bool = False) -> None:
        """Sets the group's offsets, unless they are set already. Never raises, which would end the query (rules 7.6).

        ``is_last`` says that nobody will try again after this: it takes the time that it needs.
        """
        if self._store is None or finished.is_initial:
            return
        begun_ms = self._clock.now_ms()
        if finished.offsets == self._committed and begun_ms < self._stale_at_ms:
            return
        if begun_ms < self._retry_at_ms and not is_last:
            return
        try:
            before = (self._commit_last if is_last else self._commit)(self._store, finished)
        except RmqpullError as error:
            self._tried = finished.offsets
            ended_ms = self._clock.now_ms()
            self._retry_at_ms = ended_ms + REST_FACTOR * (ended_ms - begun_ms)
            self._tell_failure(error)
        else:
            self._others.look(before, self._committed, self._tried, finished.offsets)
            self._committed = self._tried = finished.offsets
            self._stale_at_ms = self._clock.now_ms() + COMMIT_AGAIN_MS
            self._is_failing = False

    def _commit(self, store: OffsetStore, finished: QueueOffsets) -> Mapping[MessageQueue, int]:
        return store.commit(finished.offsets, min(COMMIT_TIMEOUT_MS, self._request_timeout_ms))

    def _commit_last(self, store: OffsetStore, finished: QueueOffsets) -> Mapping[MessageQueue, int]:
        for attempt in range(1, LAST_COMMIT_ATTEMPTS + 1):
            try:
                return store.commit(finished.offsets, self._request_timeout_ms)
            except BrokerUnavailable:  # it has been tried for as long as a request may take
                raise
            except RmqpullError:
                if attempt == LAST_COMMIT_ATTEMPTS:
                    raise
                self._clock.sleep(attempt * LAST_COMMIT_PAUSE_MS)
        raise AssertionError("the last attempt returns or raises")

    def _tell_failure(self, error: RmqpullError) -> None:
        level = logging.DEBUG if self._is_failing else logging.WARNING
        _logger.log(level, "Group %s keeps its old offsets until a later commit succeeds: %s", self._group, error)
        self._is_failing = True


class OtherCommits:
    """Notices that somebody else sets the group's offsets, and warns of it once.

    What the broker had before a commit is what this query set last, or tried to. Anything else was set by somebody
    else: by a reset, which sets a queue once and has its own message, or by another query or consumer, which goes on.
    So it takes two different offsets of one queue to warn. Before its first commit a query knows nothing: what is
    there may be its own, from before it was started again.
    """

    def __init__(self, group: str | None, client_id: str) -> None:
        self._group = group
        self._client_id = client_id
        self._seen: dict[MessageQueue, int] = {}
        self._is_told = False

    def look(self, before: Mapping[MessageQueue, int], *own: Mapping[MessageQueue, int]) -> None:
        """``before`` is what the broker had; ``own`` what this query committed last, tried to, and committed now."""
        committed, *_ = own
        for queue, offset in before.items():
            if self._is_told or queue not in committed or offset in (offsets.get(queue) for offsets in own):
                continue
            if self._seen.setdefault(queue, offset) != offset:
                self._tell(queue, offset, committed[queue])

    def _tell(self, queue: MessageQueue, offset: int, own_offset: int) -> None:
        self._is_told = True
        _logger.warning(
            "Somebody else commits to group %s too, beside this query (client id %s): queue %s was at offset %d, where "
            "this query had set %d. No message is lost, since the checkpoint says where a query reads, but the group's "
            "offsets tell the progress of neither. Give each query and each consumer a consumerGroup of its own, or "
            "set commitOffsets to false for all but one. (The two sides of a self-join may have a reader each; then "
            "this is no mistake.)",
            self._group,
            self._client_id,
            queue,
            offset,
            own_offset,
        )
