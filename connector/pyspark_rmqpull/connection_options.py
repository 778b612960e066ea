"""Options that say where the broker is and how it is spoken to."""

from __future__ import annotations

import re

from pyspark_rmqpull.option import Option, integer


def _endpoints(text: str) -> str:
    host, _, port = text.strip().rpartition(":")
    if (
        not host
        or not (port.isascii() and port.isdecimal())
        or not 0 < int(port) <= 65_535
        or re.search(r"[\s,;/]", text.strip())
    ):
        raise ValueError("Expected one HOST:PORT, such as 127.0.0.1:8081.")
    return text.strip()


CONNECTION_OPTIONS = (
    Option("endpoints", None, "host:port", "Where the broker listens.", _endpoints, is_required=True),
    Option(
        "requestTimeoutMs",
        "10000",
        "ms",
        "How long one request to the broker may take, retries included: a broker that restarts within is not noticed.",
        integer(1, 3_600_000),
    ),
)
