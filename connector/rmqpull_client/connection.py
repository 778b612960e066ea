"""The settings of a connection, the addresses in them, and the names of topics and groups within its namespace."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass, field

from rmqpull_client.settings import Setting
from rmqpull_proto.names import DLQ_PREFIX, RETRY_PREFIX

_PREFIXES = (RETRY_PREFIX, DLQ_PREFIX)
MASTER_ID = 0
"""The broker id of a master. Slaves have greater ids."""

ENDPOINTS = Setting(
    "",
    "host:port",
    "Address of `rmqpull-broker`, or of several servers of one cluster, separated by semicolons. When one does not "
    "respond, the connector tries the next, and then stays with the one that works. Set exactly one of `endpoints` and "
    "`nameServers`.",
)
NAME_SERVERS = Setting(
    "",
    "host:port",
    "Name servers of an Apache RocketMQ cluster, separated by semicolons: RocketMQ's `namesrvAddr`. The connector asks "
    "them for the brokers of each topic, and talks to these brokers directly.",
)
BROKER_ADDRESSES = Setting(
    "",
    "broker=host:port",
    "With `nameServers`: addresses to use instead of those that the brokers have registered, for example when brokers "
    "run in containers. `broker-a=localhost:10911;broker-a:1=localhost:10921` is for the master of `broker-a` and its "
    "slave with id 1. Default: the registered addresses.",
)
POLL_NAME_SERVER_INTERVAL_MS = Setting(
    30_000,
    "ms",
    "With `nameServers`: how long the connector uses the route of a topic before it asks a name server for it again.",
)
ACCESS_KEY = Setting[str | None](
    None,
    "text",
    "Access key for servers that check permissions. Requests are signed with it and with `secretKey`, as RocketMQ's "
    "clients do. Default: requests are not signed.",
)
SECRET_KEY = Setting[str | None](
    None,
    "text",
    "Secret key that belongs to `accessKey`. It is never sent, and never shown in plans, logs, errors or checkpoints.",
)
NAMESPACE = Setting(
    "",
    "name",
    "RocketMQ namespace of all topics and groups that you name. Rows and offsets show the names without it.",
)
CA_FILE = Setting[str | None](
    None,
    "path",
    "PEM file with the certificate authorities to trust. Default: the authorities that gRPC ships, which are "
    "Mozilla's; with `nameServers` those of the operating system.",
)
CERT_FILE = Setting[str | None](
    None, "path", "PEM file with the client certificate and its chain, for servers that require one (mutual TLS)."
)
KEY_FILE = Setting[str | None](
    None, "path", "PEM file with the private key of `tlsCertFile`, which must not be encrypted."
)
REQUEST_TIMEOUT_MS = Setting(
    10_000,
    "ms",
    "Time limit of one request to the broker, including retries. With several `endpoints`, each attempt gets a share "
    "of the remaining time.",
)
REQUEST_RETRIES = Setting[int | None](
    None,
    "retries",
    "Maximum number of retries of a request while the broker is unavailable or busy. With several `endpoints`, trying "
    "each of them once counts as one retry. Default: as many as fit into `requestTimeoutMs`.",
)
REQUEST_RETRY_INTERVAL_MS = Setting(
    50,
    "ms",
    "Pause before the first retry. It doubles with every retry up to one second; a first pause above one second does "
    "not grow. Each pause is shortened at random by up to half.",
)
SERVER_AWAY_TIMEOUT_MS = Setting(
    0,
    "ms",
    "How long in total a request waits for a server that is away, if that server has responded to this application "
    "before or a route names it. A restart of a broker or name server within this time goes unnoticed. A request "
    "always waits for at least `requestTimeoutMs`, so 0 means no longer than for other servers.",
)
CLIENT_ID = Setting[str | None](None, "name", "Servers see it as the start of their client ids.")
PARENT_TOPIC = Setting(
    "",
    "name",
    "With `nameServers`: the topic whose brokers have the light message queues that `topic` names as `%LMQ%NAME`. "
    "These have no route of their own. Lite topics do not need it.",
)


@dataclass(frozen=True)
class Credentials:
    """The keys that sign requests: see :data:`ACCESS_KEY` and :data:`SECRET_KEY`.

    They never appear in logs, errors or the representation of an object.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)


@dataclass(frozen=True)
class Tls:
    """Encrypts a connection and checks the server's certificate, including its host name.

    All fields are paths on the machine that opens the connection: see :data:`CA_FILE`, :data:`CERT_FILE` and
    :data:`KEY_FILE`. The last two belong together.
    """

    ca_file: str | None = CA_FILE.default
    cert_file: str | None = CERT_FILE.default
    key_file: str | None = KEY_FILE.default


@dataclass(frozen=True)
class Connection:
    """How to reach a broker. A process keeps one connection for each distinct value.

    Give either ``endpoints`` or ``name_servers``. The settings above, such as :data:`ENDPOINTS`, describe the fields of
    their names. :func:`parse_broker_addresses` has the form of ``broker_addresses``.

    Args:
        credentials: The keys that sign requests. None: requests are not signed.
        tls: How to encrypt the connection. None: not encrypted.
    """

    endpoints: str = ENDPOINTS.default
    request_timeout_ms: int = REQUEST_TIMEOUT_MS.default
    request_retries: int | None = REQUEST_RETRIES.default
    request_retry_interval_ms: int = REQUEST_RETRY_INTERVAL_MS.default
    namespace: str = NAMESPACE.default
    credentials: Credentials | None = None
    tls: Tls | None = None
    client_id: str | None = CLIENT_ID.default
    name_servers: str = NAME_SERVERS.default
    broker_addresses: str = BROKER_ADDRESSES.default
    poll_name_server_interval_ms: int = POLL_NAME_SERVER_INTERVAL_MS.default
    server_away_timeout_ms: int = SERVER_AWAY_TIMEOUT_MS.default
    parent_topic: str = PARENT_TOPIC.default

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
