"""Certificates and keys from their files, checked before gRPC gets them: it would say nothing of what is wrong."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import grpc

from rmqpull_client.connection import Tls
from rmqpull_client.errors import OptionError


def channel_credentials(tls: Tls) -> grpc.ChannelCredentials:
    """What a channel needs to be encrypted, read now. Raises OptionError for a file that is missing or wrong."""
    roots = None if tls.ca_file is None else _read("tlsCaFile", tls.ca_file)
    if tls.ca_file is not None and roots is not None:
        _check_roots(tls.ca_file, roots)
    if tls.cert_file is None or tls.key_file is None:
        return grpc.ssl_channel_credentials(roots)
    chain, key = _read("tlsCertFile", tls.cert_file), _read("tlsKeyFile", tls.key_file)
    _check_pair(tls.cert_file, tls.key_file)
    return grpc.ssl_channel_credentials(roots, key, chain)


def _read(option: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OptionError(
            f"Option {option} is {path!r}, which cannot be read on host {socket.gethostname()}: {error.strerror}. "
            "The driver and every executor read it for themselves: put the file on each machine under this path."
        ) from None


def _check_roots(path: str, content: bytes) -> None:
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=content.decode("ascii"))
        if not context.cert_store_stats()["x509"]:
            raise ValueError
    except (ssl.SSLError, ValueError):
        raise _wrong("tlsCaFile", path, "has no certificate in PEM form that can be read") from None


def _check_pair(cert_file: str, key_file: str) -> None:
    """Loads both as Python does, which tells what is wrong with which."""

    def no_password() -> str:
        raise _wrong("tlsKeyFile", key_file, "is encrypted, and nobody is there to give its password")

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(cert_file, key_file, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            what = f"is not the key of the certificate in tlsCertFile, {cert_file!r}"
            raise _wrong("tlsKeyFile", key_file, what) from None
        try:
            certificate = Path(cert_file).read_text(encoding="ascii")
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
        except (ssl.SSLError, ValueError):
            raise _wrong("tlsCertFile", cert_file, "has no certificate in PEM form that can be read") from None
        raise _wrong("tlsKeyFile", key_file, "has no private key in PEM form that can be read") from None


def _wrong(option: str, path: str, what: str) -> OptionError:
    return OptionError(
        f"Option {option} is {path!r}, which on host {socket.gethostname()} {what}. Give the path of another file."
    )
