"""The settings of a connection, the addresses in them, and the names of topics and groups within its namespace."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field

from rmqpull_proto.names import DLQ_PREFIX, RETRY_PREFIX

_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)
MASTER_ID = 0
"""The broker id of a master. Slaves have greater ids."""


@dataclass(frozen=True)
class Credentials:
    """The keys that sign requests. They never appear in logs, errors or the representation of an object."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)


@dataclass(frozen=True)
class Tls:
    """Encrypts a connection and checks the server's certificate, including its host name.

    All fields are paths of PEM files on the machine that opens the connection. ``ca_file`` holds the authorities to
    trust; the default is gRPC's own list, and with name servers that of the operating system. ``cert_file`` and
    ``key_file`` belong together: they identify the client if the server asks for a certificate (mutual TLS).
    """

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None


@dataclass(frozen=True)
class Connection:
    """How to reach a broker. A process keeps one connection for each distinct value.

    Give either ``endpoints`` or ``name_servers``.

    Args:
        endpoints: Addresses ``HOST:PORT`` of one cluster, separated by semicolons or commas, that serve the gRPC
            protocol. Requests go to one of them, and to the next when it does not respond.
        request_timeout_ms: The time limit of one request in milliseconds, all retries included.
        request_retries: The most retries of a request while the broker is unavailable or busy. None: until the time
            limit.
        request_retry_interval_ms: The pause before the first retry, in milliseconds. It doubles up to one second.
        namespace: RocketMQ's namespace. Topics and groups are named without it, in calls and in results.
        credentials: The keys that sign requests. None: requests are not signed.
        tls: How to encrypt the connection. None: not encrypted.
        client_id: The beginning of the id by which the server knows this client. Host name and process id follow.
        name_servers: Addresses ``HOST:PORT`` of the name servers of one RocketMQ cluster, separated as above.
        broker_addresses: Addresses to use instead of those that the name servers return, as
            :func:`parse_broker_addresses` takes them.
        poll_name_server_interval_ms: How long a route from a name server is used before it is requested again, in
            milliseconds.
        server_away_timeout_ms: The total time in milliseconds that a request waits for servers that are away, but have
            answered this process before or are brokers of a route. 0, or less than ``request_timeout_ms``: as long as
            for any other server.
        parent_topic: The topic whose brokers have the light message queues (topics ``%LMQ%NAME``) that are read. The
            names of lite topics contain theirs.
    """

    endpoints: str = ""
    request_timeout_ms: int = 10_000
    request_retries: int | None = None
    request_retry_interval_ms: int = 50
    namespace: str = ""
    credentials: Credentials | None = None
    tls: Tls | None = None
    client_id: str | None = None
    name_servers: str = ""
    broker_addresses: str = ""
    poll_name_server_interval_ms: int = 30_000
    server_away_timeout_ms: int = 0
    parent_topic: str = ""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses of ``endpoints`` or of ``name_servers``, in their order, each once."""
        return tuple(dict.fromkeys(_split(self.endpoints or self.name_servers)))

    @property
    def endpoints_and_namespace(self) -> str:
        """The endpoints or name servers, followed by the namespace if there is one. For error messages."""
        servers = self.endpoints or self.name_servers
        return f"{servers} (namespace {self.namespace})" if self.namespace else servers


def parse_addresses(text: str) -> tuple[str, ...]:
    """Returns the addresses ``HOST:PORT`` in a text, separated by semicolons or commas, each once.

    Raises ValueError if there is anything else in it.
    """
    addresses = _split(text)
    for address in addresses:
        host, _, port = address.rpartition(":")
        is_port = port.isascii() and port.isdecimal() and 0 < int(port) <= 65_535
        if not host or not is_port or re.search(r"[\s/]", address):
            raise ValueError(f"{address!r} is not HOST:PORT.")
    return tuple(dict.fromkeys(addresses))


def parse_broker_addresses(text: str) -> dict[tuple[str, int], str]:
    """Returns addresses ``HOST:PORT`` by broker name and broker id.

    ``broker-a=localhost:10911;broker-a:1=localhost:10921`` names the master of ``broker-a``, whose id is 0, and its
    slave with id 1. Raises ValueError if the text has another form, or names a broker twice.
    """
    found: dict[tuple[str, int], str] = {}
    for part in _split(text):
        match = re.fullmatch(r"([^=:\s]+)(?::([0-9]{1,10}))?\s*=\s*(\S+)", part)
        if match is None:
            raise ValueError(f"{part!r} is not BROKER=HOST:PORT or BROKER:ID=HOST:PORT.")
        broker = match[1], int(match[2] or MASTER_ID)
        if broker in found:
            raise ValueError(f"It names broker {broker[0]} with id {broker[1]} twice.")
        (found[broker],) = parse_addresses(match[3])
    return found


def _split(text: str) -> list[str]:
    return [part.strip() for part in re.split("[;,]", text)]


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
