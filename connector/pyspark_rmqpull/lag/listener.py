"""A streaming query listener that knows the lag of the session's rmqpull queries."""

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

from pyspark_rmqpull.lag.query_lag import QueryLag, lag

QUERIES_MAX = 1000
"""How many queries are remembered. A removed listener misses the end of queries; newer queries replace those."""

_logger = logging.getLogger(__name__)


class RmqpullLagListener(StreamingQueryListener):
    """``spark.streams.addListener(RmqpullLagListener(print))``.

    It calls ``on_lag`` with the lag of each finished micro-batch, on Spark's listener thread. Without ``on_lag`` it
    logs the lag in one line, at INFO. It ignores queries without an rmqpull source. No method raises, even if
    ``on_lag`` does, because Spark's listeners must not fail.
    """

    def __init__(self, on_lag: Callable[[QueryLag], object] | None = None) -> None:
        self._on_lag = on_lag or _log
        self._lock = threading.Lock()
        self._running: dict[str, QueryLag] = {}
        self._last: QueryLag | None = None

    @property
    def last(self) -> QueryLag | None:
        """The newest lag of any query, even of one that has ended; None before the first."""
        return self._last

    @property
    def running(self) -> Mapping[str, QueryLag]:
        """The newest lag of each query that has not ended, by query id."""
        with self._lock:
            return dict(self._running)

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Does nothing: there is no lag yet."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Computes the lag after a micro-batch, or of an idle query that reports that it is alive."""
        try:
            found = lag(event.progress)
            if not found.queues:
                return
            self._remember(found)
            self._on_lag(found)
        except Exception:
            # on_lag belongs to the user, and a listener that raises disturbs the others of the session.
            _logger.warning("Cannot report the lag of a query", exc_info=True)

    def _remember(self, found: QueryLag) -> None:
        with self._lock:
            self._running.pop(found.query_id, None)  # the newest are last
            self._running[found.query_id] = found
            if len(self._running) > QUERIES_MAX:
                del self._running[next(iter(self._running))]
        self._last = found

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Does nothing: the lag is still that of the last micro-batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Forgets a query that has ended."""
        with self._lock:
            self._running.pop(str(event.id), None)


def _log(found: QueryLag) -> None:
    _logger.info("%s", found.summary())
