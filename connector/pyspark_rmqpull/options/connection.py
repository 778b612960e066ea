"""Options of the connection, shared by source and sink: where the servers are, and how to reach them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark_rmqpull.options.declaration import Given, Mode, option, option_of
from pyspark_rmqpull.options.parsers import (
    addresses,
    integer,
    matching,
    parse_addresses_of_brokers,
    parse_boolean,
    parse_path,
)
from rmqpull_client import connection as client
from rmqpull_client.connection import Connection, Credentials, Tls

AWAY_TIMEOUTS_MS = {Mode.STREAM: 300_000, Mode.BATCH: 30_000}
"""A stream should outlast a restart of a loaded broker. Somebody may be waiting for a batch."""
_Options = TypeVar("_Options", bound="ConnectionOptions")
_REQUEST_LIMITS = ("requestTimeoutMs", "sendMsgTimeout")


@dataclass(frozen=True, kw_only=True)
class ConnectionOptions:
    """Together they make one :class:`Connection`."""

    endpoints: str = option_of(client.ENDPOINTS, addresses("127.0.0.1:8081"), kafka_name="kafka.bootstrap.servers")
    name_servers: str = option_of(
        client.NAME_SERVERS,
        addresses("127.0.0.1:9876"),
        rocketmq_names=("namesrvAddr", "nameserver.address", "namesrv.addr", "rocketmq.namesrv.addr"),
    )
    broker_addresses: str = option_of(client.BROKER_ADDRESSES, parse_addresses_of_brokers)
    poll_name_server_interval: int = option_of(client.POLL_NAME_SERVER_INTERVAL_MS, integer(10, 3_600_000))
    access_key: str | None = option_of(
        client.ACCESS_KEY,
        matching(  # "," and "/" would end it in the header that carries it
            r"[!-+\--.0-~]+", "printable ASCII characters without spaces, commas and slashes"
        ),
        is_secret=True,
    )
    secret_key: str | None = option_of(
        client.SECRET_KEY, matching(r"(?s)\S(.*\S)?", "a key without spaces or line ends around it"), is_secret=True
    )
    namespace: str = option_of(
        client.NAMESPACE, matching("[|a-zA-Z0-9_-]{1,120}", "1 to 120 of the characters a-z A-Z 0-9 _ - |")
    )
    tls_enabled: bool = option(
        parse_boolean,
        unit="true, false",
        doc="Encrypts the connection and checks the server's certificate, including its host name.",
        default="false",
    )
    tls_ca_file: str | None = option_of(
        client.CA_FILE, parse_path, more="Every executor needs this file, and the two below, under the same path."
    )
    tls_cert_file: str | None = option_of(client.CERT_FILE, parse_path)
    tls_key_file: str | None = option_of(client.KEY_FILE, parse_path)
    request_timeout_ms: int = option_of(
        client.REQUEST_TIMEOUT_MS,
        integer(1, 3_600_000),
        more="For a server that has responded before and is away now, `serverAwayTimeoutMs` applies instead; but if "
        "you set only `requestTimeoutMs`, it limits both.",
        kafka_name="kafkaConsumer.pollTimeoutMs",
    )
    request_retries: int | None = option_of(
        client.REQUEST_RETRIES, integer(0, 1_000_000), kafka_name="fetchOffset.numRetries"
    )
    request_retry_interval_ms: int = option_of(
        client.REQUEST_RETRY_INTERVAL_MS, integer(1, 60_000), kafka_name="fetchOffset.retryIntervalMs"
    )
    server_away_timeout_ms: int | None = option(
        integer(0, 3_600_000),
        unit=client.SERVER_AWAY_TIMEOUT_MS.unit,
        doc=f"{client.SERVER_AWAY_TIMEOUT_MS.doc} Default: {AWAY_TIMEOUTS_MS[Mode.STREAM]} for streams and "
        f"{AWAY_TIMEOUTS_MS[Mode.BATCH]} for batch reads and writes, or `requestTimeoutMs` or `sendMsgTimeout` if "
        "you set one of these.",
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
        away_ms = self.server_away_timeout_ms
        return Connection(
            endpoints=self.endpoints,
            request_timeout_ms=self.request_timeout_ms,
            request_retries=self.request_retries,
            request_retry_interval_ms=self.request_retry_interval_ms,
            namespace=self.namespace,
            credentials=None if keys[0] is None or keys[1] is None else Credentials(keys[0], keys[1]),
            tls=Tls(*files) if self.tls_enabled else None,
            name_servers=self.name_servers,
            broker_addresses=self.broker_addresses,
            poll_name_server_interval_ms=self.poll_name_server_interval,
            server_away_timeout_ms=client.SERVER_AWAY_TIMEOUT_MS.default if away_ms is None else away_ms,
        )
