"""The headers of each call, with its signature (rules 5.2, 5.3)."""

from __future__ import annotations

import datetime
import hmac
import os
import socket
import uuid

from rmqpull_client.connection import Connection, Credentials
from rmqpull_proto import __version__


def client_id_of(connection: Connection) -> str:
    """The client id that the server requires, which no two processes may share."""
    client = "" if connection.client_id is None else f"{connection.client_id}@"
    return f"{client}{socket.gethostname()}@{os.getpid()}@rmqpull"


def headers(connection: Connection) -> tuple[tuple[str, str], ...]:
    """What identifies this process, names the namespace, and signs the call where there are credentials."""
    date_time = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    entries = [
        ("x-mq-client-id", client_id_of(connection)),
        ("x-mq-language", "PYTHON"),
        ("x-mq-client-version", __version__),
        ("x-mq-protocol", "v2"),
        ("x-mq-date-time", date_time),
        ("x-mq-request-id", str(uuid.uuid4())),
    ]
    if connection.namespace:
        entries.append(("x-mq-namespace", connection.namespace))
    if connection.credentials is not None:
        entries.append(("authorization", authorization(connection.credentials, date_time)))
    return tuple(entries)


def authorization(credentials: Credentials, date_time: str) -> str:
    """The header ``authorization`` of a call whose ``x-mq-date-time`` this is."""
    signature = hmac.digest(credentials.secret_key.encode(), date_time.encode(), "sha1").hex().upper()
    return f"MQv2-HMAC-SHA1 Credential={credentials.access_key}, SignedHeaders=x-mq-date-time, Signature={signature}"
