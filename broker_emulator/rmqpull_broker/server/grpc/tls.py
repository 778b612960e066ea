"""TLS for gRPC clients, on a separate port: gRPC cannot tell from the first byte whether a client uses TLS."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

if TYPE_CHECKING:
    from cryptography.x509 import GeneralName

_DAYS = 365
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class TlsAddress:
    """Where to listen for TLS, and in PEM: the certificate chain, its key, and the authorities for clients.

    With authorities, a client needs a certificate signed by one of them.
    """

    host: str
    port: int
    certificate: bytes
    key: bytes
    client_ca: bytes | None = None

    def make_credentials(self) -> grpc.ServerCredentials:
        """Makes the credentials for gRPC."""
        return grpc.ssl_server_credentials([(self.key, self.certificate)], self.client_ca, self.client_ca is not None)


def make_own_certificate(host: str) -> tuple[bytes, bytes]:
    """Makes a self-signed certificate for this machine and a host, as Apache's proxy does without files.

    Returns the certificate and its key, in PEM. Raises ImportError without the library `cryptography`.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rmqpull-broker")])
    hosts = dict.fromkeys((*_LOOPBACK, host) if host.isascii() else _LOOPBACK)
    named = x509.SubjectAlternativeName([_name_host(each) for each in hosts])
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - datetime.timedelta(days=1))
    builder = builder.not_valid_after(now + datetime.timedelta(days=_DAYS))
    # Marked as an authority, because clients that trust this certificate use it as one.
    builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
    certificate = builder.add_extension(named, critical=False).sign(key, hashes.SHA256())
    encoded = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), encoded


def _name_host(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
