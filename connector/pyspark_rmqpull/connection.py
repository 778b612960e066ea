"""How a broker is reached: what the connection options say."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Connection:
    """Where the broker listens, and how long one request may take, retries included.

    ``client_id`` stands in the id by which the server knows this client.
    """

    endpoints: str
    request_timeout_ms: int = 10_000
    client_id: str | None = None
