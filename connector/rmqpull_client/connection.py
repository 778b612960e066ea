"""The settings of a connection, and the names of topics and groups within its namespace."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field

_PREFIXES = ("%RETRY%", "%DLQ%")


@dataclass(frozen=True)
class Credentials:
    """The keys that sign requests. They never appear in logs, errors or the representation of an object."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)


@dataclass(frozen=True)
class Tls:
    """Encrypts a connection and checks the server's certificate, including its host name.

    All fields are paths of PEM files on the machine that opens the connection. ``ca_file`` holds the authorities to
    trust; the default is gRPC's own list. ``cert_file`` and ``key_file`` belong together: they identify the client if
    the server asks for a certificate (mutual TLS).
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class Connection:
    """How to reach a broker. A process keeps one connection for each distinct value.

    Args:
        endpoints: Addresses ``HOST:PORT`` of one cluster, separated by semicolons or commas. Requests go to one of
            them, and to the next when it does not respond.
        request_timeout_ms: The time limit of one request in milliseconds, all retries included.
        request_retries: How often a request is retried at most while the broker is unavailable or busy. None: until the
            time limit.
        request_retry_interval_ms: The pause before the first retry, in milliseconds. It doubles up to one second.
        namespace: RocketMQ's namespace. Topics and groups are named without it, in calls and in results.
        credentials: The keys that sign requests. None: requests are not signed.
        tls: How to encrypt the connection. None: not encrypted.
        client_id: The beginning of the id by which the server knows this client. Host name and process id follow.
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
        """The addresses of ``endpoints``, in their order, each once."""
        return tuple(dict.fromkeys(part.strip() for part in re.split("[;,]", self.endpoints)))

    @property
    def endpoints_and_namespace(self) -> str:
        """The endpoints, followed by the namespace if there is one. For error messages."""
        return f"{self.endpoints} (namespace {self.namespace})" if self.namespace else self.endpoints


def wrap_name(namespace: str, name: str) -> str:
    """Returns the broker's name of a topic or group in a namespace, as RocketMQ's NamespaceUtil does.

    In namespace ``shop``, ``orders`` becomes ``shop%orders`` and ``%RETRY%g`` becomes ``%RETRY%shop%g``.
    """
    prefix, rest = _split_prefix(name)
    if not namespace or not name or rest.startswith(f"{namespace}%"):
        return name
    return f"{prefix}{namespace}%{rest}"


def unwrap_name(namespace: str, name: str) -> str | None:
    """Returns the name within the namespace for a name of the broker, or None if it is not in the namespace."""
    prefix, rest = _split_prefix(name)
    inner = rest.removeprefix(f"{namespace}%") if namespace else rest
    return None if namespace and inner == rest else prefix + inner


def _split_prefix(name: str) -> tuple[str, str]:
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return prefix, name.removeprefix(prefix)


def make_client_id(connection: Connection) -> str:
    """Returns the client id that servers require. No two processes have the same one."""
    client = "" if connection.client_id is None else f"{connection.client_id}@"
    return f"{client}{socket.gethostname()}@{os.getpid()}@rmqpull"
