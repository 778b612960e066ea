"""Paces repeated questions to name servers, while servers that are away have not registered there again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from rmqpull_client.connection import Connection
from rmqpull_client.transports.away import WAITS, TimeLimit
from rmqpull_client.transports.pauses import make_pauses_s


def make_looks(
    connection: Connection,
    servers: Callable[[], str],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[None]:
    """Yields whenever the caller may ask again, the first time at once. Ends when retries or time are used up.

    The time for servers that are away counts from the end of the first look, which may have waited for a name server.
    ``servers`` returns the names of the awaited servers, for the log.
    """
    yield
    limit = TimeLimit.of(connection, clock())
    for pause_s in make_pauses_s(connection):
        now_s = clock()
        if pause_s is None or (now_s >= limit.deadline_s and not limit.extend(now_s)):
            return
        WAITS.note(limit, now_s, servers())
        sleep(min(pause_s, limit.deadline_s - now_s))
        yield
