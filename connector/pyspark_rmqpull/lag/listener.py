"""A listener of Spark's that knows how far the session's rmqpull queries are behind."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from pyspark_rmqpull.lag.behind import QueryLag, lag

QUERIES_MAX = 1000
"""Queries that are remembered: one whose end was not told, since the listener was removed, goes when others come."""

_logger = logging.getLogger(__name__)


class RmqpullLagListener(StreamingQueryListener):
    """``spark.streams.addListener(RmqpullLagListener(print))``.

    ``on_lag`` is called with the lag of every finished micro-batch, on Spark's listener thread; without it each is
    logged in one line, at INFO. Queries without an rmqpull source are passed over. No method raises, whatever
    ``on_lag`` does: Spark's listeners must not fail.
    """

    def __init__(self, on_lag: Callable[[QueryLag], object] | None = None) -> None:
        self._on_lag = on_lag or _log
        self._lock = threading.Lock()
        self._running: dict[str, QueryLag] = {}
        self._last: QueryLag | None = None

    @property
    def last(self) -> QueryLag | None:
        """The newest lag of any query, also of one that has ended; None before the first."""
        return self._last

    @property
    def running(self) -> Mapping[str, QueryLag]:
        """The newest lag of each query that has not ended, by query id."""
        with self._lock:
            return dict(self._running)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Nothing is known yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """A micro-batch is finished, or an idle query tells that it lives."""
        try:
            found = lag(event.progress)
            if not found.queues:
                return
            self._remember(found)
            self._on_lag(found)
        except Exception:
            # on_lag is the user's, and a listener that raises harms the session's others.
            _logger.warning("The lag of a query could not be told", exc_info=True)

    def _remember(self, found: QueryLag) -> None:
        with self._lock:
            self._running.pop(found.query_id, None)  # the newest stand last
            self._running[found.query_id] = found
            if len(self._running) > QUERIES_MAX:
                del self._running[next(iter(self._running))]
        self._last = found

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """An idle query is where its last micro-batch left it."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """A query that has ended is behind nothing."""
        with self._lock:
            self._running.pop(str(event.id), None)


def _log(found: QueryLag) -> None:
    _logger.info("%s", found.summary())
