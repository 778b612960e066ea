"""Options of the connection, shared by source and sink: where the servers are, and how to reach them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark_rmqpull.options.declaration import Given, Mode, option
from pyspark_rmqpull.options.parsers import (
    addresses,
    integer,
    matching,
    parse_addresses_of_brokers,
    parse_boolean,
    parse_path,
)
from rmqpull_client.connection import Connection, Credentials, Tls

AWAY_TIMEOUTS_MS = {Mode.STREAM: 300_000, Mode.BATCH: 30_000}
"""A stream should outlast a restart of a loaded broker. Somebody may be waiting for a batch."""
_Options = TypeVar("_Options", bound="ConnectionOptions")
_REQUEST_LIMITS = ("requestTimeoutMs", "sendMsgTimeout")


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Together they make one :class:`Connection`."""

    endpoints: str | None = option(
        addresses("127.0.0.1:8081"),
        unit="host:port",
        doc="Address of `rmqpull-broker`, or of several servers of one cluster, separated by semicolons. When one does "
        "not answer, the connector tries the next, and then stays with the one that works. Set exactly one of "
        "`endpoints` and `nameServers`.",
        kafka_name="kafka.bootstrap.servers",
    )
    name_servers: str | None = option(
        addresses("127.0.0.1:9876"),
        unit="host:port",
        doc="Name servers of an Apache RocketMQ cluster, separated by semicolons: RocketMQ's `namesrvAddr`. The "
        "connector asks them for the brokers of each topic, and talks to these brokers directly.",
        rocketmq_names=("namesrvAddr", "nameserver.address", "namesrv.addr", "rocketmq.namesrv.addr"),
    )
    broker_addresses: str | None = option(
        parse_addresses_of_brokers,
        unit="broker=host:port",
        doc="With `nameServers`: addresses to use instead of those that the brokers have registered, for example when "
        "brokers run in containers. `broker-a=localhost:10911;broker-a:1=localhost:10921` is for the master of "
        "`broker-a` and its slave with id 1. Default: the registered addresses.",
    )
    poll_name_server_interval: int = option(
        integer(10, 3_600_000),
        unit="ms",
        doc="With `nameServers`: how long the connector uses the brokers of a topic before it asks a name server "
        "again.",
        default="30000",
    )
    access_key: str | None = option(
        matching(  # "," and "/" would end it in the header that carries it
            r"[!-+\--.0-~]+", "printable ASCII characters without spaces, commas and slashes"
        ),
        unit="text",
        doc="Access key for servers that check permissions. Requests are signed with it and with `secretKey`, as "
        "RocketMQ's clients do. Default: requests are not signed.",
        is_secret=True,
    )
    secret_key: str | None = option(
        matching(r"(?s)\S(.*\S)?", "a key without spaces or line ends around it"),
        unit="text",
        doc="Secret key that belongs to `accessKey`. It is never sent, and never shown in plans, logs, errors or "
        "checkpoints.",
        is_secret=True,
    )
    namespace: str | None = option(
        matching("[|a-zA-Z0-9_-]{1,120}", "1 to 120 of the characters a-z A-Z 0-9 _ - |"),
        unit="name",
        doc="RocketMQ namespace of all topics and groups that you name. Rows and offsets show the names without it.",
    )
    tls_enabled: bool = option(
        parse_boolean,
        unit="true, false",
        doc="Encrypts the connection and checks the server's certificate, including its host name.",
        default="false",
    )
    tls_ca_file: str | None = option(
        parse_path,
        unit="path",
        doc="PEM file of the certificate authorities to trust. Every executor needs this file, and the two below, "
        "under the same path. Default: the authorities that gRPC ships, which are Mozilla's; with `nameServers` "
        "those of the operating system.",
    )
    tls_cert_file: str | None = option(
        parse_path,
        unit="path",
        doc="PEM file of the client certificate and its chain, for servers that require one (mutual TLS).",
    )
    tls_key_file: str | None = option(
        parse_path,
        unit="path",
        doc="PEM file of the private key of `tlsCertFile`, not encrypted.",
    )
    request_timeout_ms: int = option(
        integer(1, 3_600_000),
        unit="ms",
        doc="Time limit of one request to the broker, including retries. For servers that are away after they have "
        "answered, `serverAwayTimeoutMs` applies; but if you set `requestTimeoutMs` alone, it is the limit for them as "
        "well. With several `endpoints`, each attempt gets a share of the remaining time.",
        default="10000",
        kafka_name="kafkaConsumer.pollTimeoutMs",
    )
    request_retries: int | None = option(
        integer(0, 1_000_000),
        unit="retries",
        doc="Maximum number of retries of a request while the broker is unavailable or busy. With several `endpoints`, "
        "trying each of them once counts as one retry. Default: as many as fit into `requestTimeoutMs`.",
        kafka_name="fetchOffset.numRetries",
    )
    request_retry_interval_ms: int = option(
        integer(1, 60_000),
        unit="ms",
        doc="Pause before the first retry. It doubles with every retry up to one second; a first pause above one "
        "second does not grow. Each pause is shortened at random by up to half.",
        default="50",
        kafka_name="fetchOffset.retryIntervalMs",
    )

    server_away_timeout_ms: int | None = option(
        integer(0, 3_600_000),
        unit="ms",
        doc="How long a request waits in all while a server is away that has answered this application before, or that "
        "a route names: a broker or name server that restarts within this time goes unnoticed. It never waits shorter "
        "than `requestTimeoutMs`, so 0 means: no longer than for other servers. Default: 300000 for streams and 30000 "
        "for batch reads and writes; if you set `requestTimeoutMs` or `sendMsgTimeout`, that time.",
    )

    def choose_away_timeout(self: _Options, given: Given) -> _Options:
        """Returns the options with the default of ``serverAwayTimeoutMs``, unless it is set.

        The default depends on the mode. A user who limits the time of requests gets that limit for all servers.
        """
        if self.server_away_timeout_ms is not None or given.mode is None:
            return self
        is_limited = any(name in given for name in _REQUEST_LIMITS)
        return replace(self, server_away_timeout_ms=0 if is_limited else AWAY_TIMEOUTS_MS[given.mode])

    @property
    def connection(self) -> Connection:
        """How to reach the broker."""
        keys, files = (self.access_key, self.secret_key), (self.tls_ca_file, self.tls_cert_file, self.tls_key_file)
        return Connection(
            self.endpoints or "",
            self.request_timeout_ms,
            self.request_retries,
            self.request_retry_interval_ms,
            self.namespace or "",
            None if keys[0] is None or keys[1] is None else Credentials(keys[0], keys[1]),
            Tls(*files) if self.tls_enabled else None,
            name_servers=self.name_servers or "",
            broker_addresses=self.broker_addresses or "",
            poll_name_server_interval_ms=self.poll_name_server_interval,
            server_away_timeout_ms=self.server_away_timeout_ms or 0,
        )
