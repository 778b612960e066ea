"""The pauses between the tries of a request, which all transports share."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import count

from rmqpull_client.connection import Connection

_PAUSE_MAX_S = 1.0


def make_pauses_s(connection: Connection) -> Iterator[float | None]:
    """Yields the pause after each try in seconds, and None after the last permitted one.

    A pause doubles up to one second; a first pause above one second does not grow. Each is shortened at random by up to
    half, so that clients do not all come back at the same time.
    """
    pause_s = connection.request_retry_interval_ms / 1000
    most_s = max(pause_s, _PAUSE_MAX_S)
    retries = connection.request_retries
    for _ in count() if retries is None else range(retries):
        yield pause_s * random.uniform(0.5, 1.0)
        pause_s = min(2 * pause_s, most_s)
    yield None
