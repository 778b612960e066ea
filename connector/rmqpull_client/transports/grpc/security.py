"""TLS credentials from files, and the headers that identify and sign requests (rules 5.2, 5.3)."""

from __future__ import annotations

import datetime
import hmac
import uuid

import grpc

from rmqpull_client.connection import Connection, Credentials, Tls, make_client_id
from rmqpull_client.transports.tls_files import read_tls_files
from rmqpull_proto import __version__


def make_headers(connection: Connection) -> tuple[tuple[str, str], ...]:
    """Returns the headers of one request. They include a signature if the connection has credentials."""
    date_time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    entries = [
        ("x-mq-client-id", make_client_id(connection)),
        ("x-mq-language", "PYTHON"),
        ("x-mq-client-version", __version__),
        ("x-mq-protocol", "v2"),
        ("x-mq-date-time", date_time),
        ("x-mq-request-id", str(uuid.uuid4())),
    ]
    if connection.namespace:
        entries.append(("x-mq-namespace", connection.namespace))
    if connection.credentials is not None:
        entries.append(("authorization", make_authorization(connection.credentials, date_time)))
    return tuple(entries)


def make_authorization(credentials: Credentials, date_time: str) -> str:
    """Returns the header ``authorization`` for a request with this ``x-mq-date-time``."""
    signature = hmac.digest(credentials.secret_key.encode(), date_time.encode(), "sha1").hex().upper()
    return f"MQv2-HMAC-SHA1 Credential={credentials.access_key}, SignedHeaders=x-mq-date-time, Signature={signature}"


def load_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """Reads the files of ``tls`` and returns the credentials of a channel. Raises OptionError for an unusable file."""
    roots, chain, key = read_tls_files(tls)
    return grpc.ssl_channel_credentials(roots, key, chain)
