"""Proxies that speak TLS and check signatures, as a secured RocketMQ cluster does."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rpc import ADMIN, COLUMNS, MESSAGING, STAGES, Method
from tests.harness.waiting import WAIT_S


class CertificateAuthority:
    """A certificate authority for tests. Its files are in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "authority of the tests")])
        signs = x509.KeyUsage(False, False, False, False, False, True, False, False, False)  # certificates
        own = self._key.public_key()
        self._certificate = self._signed(self._name, own, x509.BasicConstraints(True, None), signs)
        self.ca_file = folder / "ca.pem"
        self.ca_file.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def issue(self, name: str, *hosts: str, is_expired: bool = False) -> tuple[Path, Path]:
        """Issues a certificate for these host names or addresses. Returns its file and that of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        named = [
            x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host) for host in hosts
        ]
        extensions = [x509.SubjectAlternativeName(named)] if named else []
        certificate = self._signed(subject, key.public_key(), *extensions, is_expired=is_expired)
        cert_file, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert_file.write_bytes(certificate.public_bytes(Encoding.PEM))
        key_file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return cert_file, key_file

    def encrypted(self, key_file: Path) -> bytes:
        """Returns a private key, encrypted with a password."""
        key = load_pem_private_key(key_file.read_bytes(), None)
        return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password"))

    def _signed(
        self,
        subject: x509.Name,
        key: ec.EllipticCurvePublicKey,
        *extensions: x509.ExtensionType,
        is_expired: bool = False,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        builder = x509.CertificateBuilder(self._name, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - 3 * day).not_valid_after(now - day if is_expired else now + day)
        # Python 3.13 wants a certificate to name its key and that of its authority.
        own = x509.SubjectKeyIdentifier.from_public_key(key)
        signed_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        for extension in (*extensions, own, signed_by):
            is_critical = isinstance(extension, (x509.BasicConstraints, x509.KeyUsage))
            builder = builder.add_extension(extension, critical=is_critical)
        return builder.sign(self._key, hashes.SHA256())


class SignatureCheck(grpc.GenericRpcHandler):  # type: ignore[type-arg]
    """Forwards calls to a server, and refuses those with a wrong signature (rules 5.3)."""

    METHODS: ClassVar = {m.path: m for service in (MESSAGING, COLUMNS, ADMIN, STAGES) for m in service.methods.values()}

    def __init__(self, target: str, keys: Mapping[str, str]) -> None:
        self._channel = grpc.insecure_channel(target, options=[("grpc.max_receive_message_length", -1)])
        self._keys = keys
        self.seen: list[dict[str, str]] = []  # the headers of each call

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        method = self.METHODS.get(handler_call_details.method)
        if method is None:
            return None
        headers = {key: str(value) for key, value in handler_call_details.invocation_metadata}
        self.seen.append(headers)
        complaint = self._complaint(headers)
        if complaint is None:
            return self._forwarded(method, headers)
        refused = method.response(status=v2.Status(code=v2.Code.UNAUTHORIZED, message=complaint)).SerializeToString()
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(lambda request, context: iter([refused]))
        return grpc.unary_unary_rpc_method_handler(lambda request, context: refused)

    def _complaint(self, headers: Mapping[str, str]) -> str | None:
        if not self._keys:
            return None
        _, _, rest = headers.get("authorization", "").partition(" ")
        parts = dict(part.strip().split("=", 1) for part in rest.split(",") if "=" in part)
        if parts.keys() != {"Credential", "SignedHeaders", "Signature"}:
            return "authentication header is incorrect."
        user = parts["Credential"].split("/")[0]
        if user not in self._keys:
            return f"User:{user} is not found."
        expected = hmac.new(self._keys[user].encode(), headers["x-mq-date-time"].encode(), hashlib.sha1).digest()
        return None if bytes.fromhex(parts["Signature"]) == expected else "check signature failed."

    def _forwarded(self, method: Method, headers: Mapping[str, str]) -> grpc.RpcMethodHandler[bytes, bytes]:
        metadata = tuple((key, value) for key, value in headers.items() if key.startswith("x-mq-"))

        def unary(request: bytes, context: grpc.ServicerContext) -> bytes:
            forward = self._channel.unary_unary(method.path, None, None)
            try:
                return bytes(forward(request, timeout=context.time_remaining(), metadata=metadata))
            except grpc.RpcError as error:
                context.abort(error.code(), error.details() or "")

        def stream(request: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
            answers = self._channel.unary_stream(method.path, None, None)(
                request, timeout=context.time_remaining(), metadata=metadata
            )
            context.add_callback(answers.cancel)
            yield from answers

        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)

    def close(self) -> None:
        self._channel.close()


@dataclass(frozen=True)
class Proxy:
    """A running proxy: its endpoints, and the headers of each call that it got."""

    endpoints: str
    seen: list[dict[str, str]]


StartProxy = Callable[..., Proxy]


@contextmanager
def run_proxies(authority: CertificateAuthority) -> Iterator[StartProxy]:
    """Yields a function that starts a proxy in front of a broker.

    ``keys`` are secret keys by access key; without them no signature is checked. ``certificate`` has the files for TLS;
    without them the proxy speaks plain text. With ``asks_certificate`` the client must show a certificate too.
    """
    with ExitStack() as started:

        def start(
            target: str,
            keys: Mapping[str, str] | None = None,
            certificate: tuple[Path, Path] | None = None,
            asks_certificate: bool = False,
        ) -> Proxy:
            handler = SignatureCheck(target, keys or {})
            threads = started.enter_context(ThreadPoolExecutor(16))
            server = grpc.server(threads, [handler], options=[("grpc.max_receive_message_length", -1)])
            if certificate is None:
                port = server.add_insecure_port("127.0.0.1:0")
            else:
                cert_file, key_file = certificate
                pair = (key_file.read_bytes(), cert_file.read_bytes())
                roots = authority.ca_file.read_bytes() if asks_certificate else None
                credentials = grpc.ssl_server_credentials([pair], roots, asks_certificate)
                port = server.add_secure_port("127.0.0.1:0", credentials)
            server.start()
            started.callback(handler.close)
            started.callback(lambda: server.stop(0).wait(WAIT_S))
            return Proxy(f"127.0.0.1:{port}", handler.seen)

        yield start
