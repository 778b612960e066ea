"""Options that say where the broker is and how it is spoken to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark_rmqpull.options.declaration import Option, boolean, integer
from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.errors import OptionError

_TLS_FILES = ("tlsCaFile", "tlsCertFile", "tlsKeyFile")
_PAIRS = (("accessKey", "secretKey"), ("tlsCertFile", "tlsKeyFile"))


def _endpoints(text: str) -> str:
    addresses = [part.strip() for part in re.split("[;,]", text)]
    for address in addresses:
        host, _, port = address.rpartition(":")
        is_port = port.isascii() and port.isdecimal() and 0 < int(port) <= 65_535
        if not host or not is_port or re.search(r"[\s/]", address):
            raise ValueError("Expected HOST:PORT, such as 127.0.0.1:8081, or several of them with semicolons between.")
    return ";".join(dict.fromkeys(addresses))


def _access_key(text: str) -> str:
    if not re.fullmatch(r"[!-+\--.0-~]+", text):  # "," and "/" end it in the header that carries it
        raise ValueError("Expected printable ASCII characters without blanks, commas and slashes.")
    return text


def _secret_key(text: str) -> str:
    if not text or text != text.strip():
        raise ValueError("Expected a key without blanks or line ends around it.")
    return text


def _path(text: str) -> str:
    if not text.strip():
        raise ValueError("Expected the path of a file.")
    return text


def _namespace(text: str) -> str:
    if not re.fullmatch("[|a-zA-Z0-9_-]{1,120}", text):
        raise ValueError("Expected 1 to 120 of the characters a-z A-Z 0-9 _ - |.")
    return text


CONNECTION_OPTIONS = (
    Option(
        "endpoints",
        None,
        "host:port",
        "Where the broker listens; several proxies of one cluster with semicolons between. One that is away is passed "
        "over, and the one that answered is asked on.",
        _endpoints,
        is_required=True,
    ),
    Option(
        "accessKey",
        None,
        "text",
        "Whose name requests are signed in, with `secretKey` as RocketMQ's clients sign; unset, they are not signed.",
        _access_key,
        is_secret=True,
    ),
    Option(
        "secretKey",
        None,
        "text",
        "The key of `accessKey`. It is never sent, and stands in no plan, log, error or checkpoint.",
        _secret_key,
        is_secret=True,
    ),
    Option(
        "namespace",
        None,
        "name",
        "RocketMQ's namespace of all topics and groups that are named here; rows and offsets have their plain names.",
        _namespace,
    ),
    Option(
        "tlsEnabled",
        "false",
        "true, false",
        "Whether the connection is encrypted and the server's certificate checked, its host name included.",
        boolean,
    ),
    Option(
        "tlsCaFile",
        None,
        "path",
        "PEM file of the authorities that are trusted; unset, those that gRPC brings along, which are Mozilla's. Like "
        "the two below, it is read where the connection is opened, so every executor needs it under this path.",
        _path,
    ),
    Option(
        "tlsCertFile",
        None,
        "path",
        "PEM file of the client's certificate and its chain, for servers that ask for one (mutual TLS).",
        _path,
    ),
    Option("tlsKeyFile", None, "path", "PEM file of that certificate's private key, not encrypted.", _path),
    Option(
        "requestTimeoutMs",
        "10000",
        "ms",
        "How long one request to the broker may take, retries included: a broker that restarts within is not noticed. "
        "With several endpoints each that is asked gets its share of what is left.",
        integer(1, 3_600_000),
    ),
    Option(
        "requestRetries",
        None,
        "times",
        "How often a request is repeated at most while the broker is away or busy; unset, as often as "
        "`requestTimeoutMs` allows. Asking every endpoint once counts as one time.",
        integer(0, 1_000_000),
    ),
    Option(
        "requestRetryIntervalMs",
        "50",
        "ms",
        "The pause before the first repetition. It doubles up to one second, or stays what it is above that; each is "
        "cut at random by up to a half.",
        integer(1, 60_000),
    ),
)


def connection_of(values: Mapping[str, Any]) -> Connection:
    """The connection that checked options, by their names in Python, describe."""
    credentials = None
    if values["access_key"] is not None and values["secret_key"] is not None:
        credentials = Credentials(values["access_key"], values["secret_key"])
    files = (values["tls_ca_file"], values["tls_cert_file"], values["tls_key_file"])
    return Connection(
        values["endpoints"],
        values["request_timeout_ms"],
        values["request_retries"],
        values["request_retry_interval_ms"],
        values["namespace"] or "",
        credentials,
        Tls(*files) if values["tls_enabled"] else None,
        values.get("client_id"),
    )


def refuse_half_connection(given: Mapping[str, str], tls_enabled: bool) -> None:
    """Raises OptionError for an option, by its name in small letters, without the one that it means nothing without."""
    for one, other in (*_PAIRS, *(pair[::-1] for pair in _PAIRS)):
        if one.lower() in given and other.lower() not in given:
            raise OptionError(f"Option {one} means nothing without {other}. Set both, or none.")
    stray = [name for name in _TLS_FILES if name.lower() in given and not tls_enabled]
    if stray:
        raise OptionError(f"Option {stray[0]} means nothing without TLS. Set tlsEnabled to true, or leave it out.")
