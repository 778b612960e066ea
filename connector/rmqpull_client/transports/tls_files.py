"""The PEM files of a TLS connection, checked with errors that say which file is wrong."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import NamedTuple

from rmqpull_client.connection import Tls
from rmqpull_client.errors import OptionError


class TlsFiles(NamedTuple):
    """The content of the files: authorities, the client's certificate with its chain, and its key. None: no file."""

    roots: bytes | None
    chain: bytes | None
    key: bytes | None


def read_tls_files(tls: Tls) -> TlsFiles:
    """Reads and checks the files of ``tls``. Raises OptionError for an unusable file.

    They are checked here, because gRPC does not say what is wrong with them.
    """
    roots = None if tls.ca_file is None else _read("tlsCaFile", tls.ca_file)
    if tls.ca_file is not None and roots is not None:
        _check_roots(tls.ca_file, roots)
    if tls.cert_file is None and tls.key_file is None:
        return TlsFiles(roots, None, None)
    if tls.cert_file is None or tls.key_file is None:
        raise OptionError(
            "A client certificate needs both Tls.cert_file and Tls.key_file (options tlsCertFile and tlsKeyFile). One "
            "of them is missing."
        )
    chain, key = _read("tlsCertFile", tls.cert_file), _read("tlsKeyFile", tls.key_file)
    _check_pair(tls.cert_file, tls.key_file)
    return TlsFiles(roots, chain, key)


def make_ssl_context(tls: Tls) -> ssl.SSLContext:
    """Returns a context that checks the server's certificate and its host name. Raises OptionError for a bad file.

    Without ``ca_file`` it trusts the authorities of the operating system.
    """
    roots = read_tls_files(tls).roots
    context = ssl.create_default_context(cadata=None if roots is None else roots.decode("ascii"))
    if tls.cert_file is not None:
        context.load_cert_chain(tls.cert_file, tls.key_file)
    return context


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
