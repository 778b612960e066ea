"""How a broker is reached: what the connection options say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Credentials:
    """The keys that requests are signed with. They are never shown."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)


@dataclass(frozen=True)
class Tls:
    """Paths of PEM files on whatever machine opens the connection; without ``ca_file`` gRPC's own roots are trusted."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class Connection:
    """Where the broker listens, as whom it is spoken to, and how long and how often it is asked.

    A process keeps one connection for each of these, and tasks get it from the driver. ``endpoints`` are addresses
    HOST:PORT of one cluster, with semicolons or commas between. Without ``request_retries`` time alone is the limit.
    ``client_id`` stands in the id by which the server knows this client.
    """

    endpoints: str
    request_timeout_ms: int = 10_000
    request_retries: int | None = None
    request_retry_interval_ms: int = 50
    namespace: str = ""
    credentials: Credentials | None = None
    tls: Tls | None = None
    client_id: str | None = None

    @property
    def addresses(self) -> tuple[str, ...]:
        """The endpoints one by one, in their order."""
        return tuple(dict.fromkeys(part.strip() for part in re.split("[;,]", self.endpoints)))

    @property
    def place(self) -> str:
        """Where names of topics and groups are looked for, as errors tell it."""
        return f"{self.endpoints}, namespace {self.namespace}," if self.namespace else self.endpoints
