"""TLS credentials from files, and the headers that identify and sign requests (rules 5.2, 5.3)."""

from __future__ import annotations

import datetime
import hmac
import socket
import ssl
import uuid
from pathlib import Path

import grpc

from rmqpull_client.connection import Connection, Credentials, Tls, make_client_id
from rmqpull_client.errors import OptionError
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
    """Reads the files of ``tls`` and returns the credentials of a channel. Raises OptionError for an unusable file.

    The files are checked first, because gRPC does not say what is wrong with them.
    """
    roots = None if tls.ca_file is None else _read("tlsCaFile", tls.ca_file)
    if tls.ca_file is not None and roots is not None:
        _check_roots(tls.ca_file, roots)
    if tls.cert_file is None and tls.key_file is None:
        return grpc.ssl_channel_credentials(roots)
    if tls.cert_file is None or tls.key_file is None:
        raise OptionError(
            "A client certificate needs both Tls.cert_file and Tls.key_file (options tlsCertFile and tlsKeyFile). One "
            "of them is missing."
        )
    chain, key = _read("tlsCertFile", tls.cert_file), _read("tlsKeyFile", tls.key_file)
    _check_pair(tls.cert_file, tls.key_file)
    return grpc.ssl_channel_credentials(roots, key, chain)


def _read(option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(
            f"Option {option} is {path!r}, which cannot be read on host {socket.gethostname()}: {error.strerror}. "
            "Each machine that opens connections needs the file under this path: with Spark, driver and executors."
        ) from None


def _check_roots(path: str, content: bytes) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=content.decode("ascii"))
        if not context.cert_store_stats()["x509"]:
            raise ValueError
    except (ssl.SSLError, ValueError):
        raise _make_file_error("tlsCaFile", path, "has no readable certificate in PEM format") from None


def _check_pair(cert_file: str, key_file: str) -> None:
    """Loads certificate and key with Python's ssl, whose errors say which file is wrong."""

    def refuse_password() -> str:
        raise _make_file_error("tlsKeyFile", key_file, "is encrypted; passwords are not supported")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, refuse_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            problem = f"is not the key of the certificate in tlsCertFile, {cert_file!r}"
            raise _make_file_error("tlsKeyFile", key_file, problem) from None
        try:
            certificate = Path(cert_file).read_text(encoding="ascii")
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError):
            raise _make_file_error("tlsCertFile", cert_file, "has no readable certificate in PEM format") from None
        raise _make_file_error("tlsKeyFile", key_file, "has no readable private key in PEM format") from None


def _make_file_error(option: str, path: str, problem: str) -> OptionError:
    return OptionError(
        f"Option {option} is {path!r}, which on host {socket.gethostname()} {problem}. Give the path of another file."
    )
