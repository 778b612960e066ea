"""TLS and signatures, checked by a proxy in front of the broker."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.errors import BrokerUnavailable, HandshakeFailed, OptionError, RequestRefused, RmqpullError
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_client.transports.grpc.security import make_authorization
from rmqpull_client.transports.port import BrokerClient
from tests.harness.secured_proxy import CertificateAuthority, StartProxy

KEYS = {"reader": "s3cr3t-of-the-tests"}
CREDENTIALS = Credentials("reader", KEYS["reader"])
QUEUE = MessageQueue("orders", "broker-a", 0)
LONG_MS, SHORT_MS = 60_000, 1_000

Open = Callable[[Connection], BrokerClient]


@pytest.fixture
def target(extensions: str) -> Iterator[str]:
    """A broker with three messages, behind the proxies."""
    with running_broker({"orders": 1}, extensions=extensions) as broker:
        broker.send("orders", b"one", b"two", b"three")
        yield broker.endpoints


@pytest.fixture
def opened() -> Iterator[Open]:
    """Connects, and closes the connections before the proxies end."""
    with ExitStack() as stack:

        def connecting(connection: Connection) -> BrokerClient:
            stack.callback(get_channel(connection).close)
            return connect(connection)

        yield connecting


def bodies(client: BrokerClient) -> list[bytes]:
    answers = client.read("g", [QueueRange(QUEUE, 0, 3)], ["body"])
    return [body for rows in answers for entry in rows for batch in entry.batches for body in batch["body"].to_pylist()]


def call_every_method(client: BrokerClient) -> None:
    assert client.query_bounds(["orders"])["orders"].queues[QUEUE] == (0, 3)
    assert bodies(client) == [b"one", b"two", b"three"]
    assert client.find_offsets_at({QUEUE: 0}) == {QUEUE: 0}
    assert client.wait_for_messages("g", {QUEUE: 0}, 1)
    client.set_consumer_offsets("g", {QUEUE: 2})
    assert client.get_consumer_offsets("g", [QUEUE]) == {QUEUE: 2}


def test_every_call_is_signed_and_encrypted(
    target: str, authority: CertificateAuthority, start_proxy: StartProxy, opened: Open
) -> None:
    proxy = start_proxy(target, KEYS, authority.issue("server", "127.0.0.1"))
    client = opened(Connection(proxy.endpoints, LONG_MS, credentials=CREDENTIALS, tls=Tls(str(authority.ca_file))))
    call_every_method(client)
    assert all(CREDENTIALS.secret_key not in str(headers) for headers in proxy.seen)


def test_the_signature_equals_that_of_the_official_client() -> None:
    official = pytest.importorskip("rocketmq.v5.util.signature").Signature
    signed = official.sign("secret", "20260301T120000Z")
    expected = f"MQv2-HMAC-SHA1 Credential=key, SignedHeaders=x-mq-date-time, Signature={signed}"
    assert make_authorization(Credentials("key", "secret"), "20260301T120000Z").lower() == expected.lower()


@pytest.mark.parametrize(
    ("credentials", "complaint"),
    [
        (Credentials("reader", "wrong-s3cr3t"), "UNAUTHORIZED: check signature failed."),
        (Credentials("stranger", "wrong-s3cr3t"), "UNAUTHORIZED: User:stranger is not found."),
        (None, "UNAUTHORIZED: authentication header is incorrect."),
    ],
)
def test_the_first_call_with_wrong_keys_is_refused(
    target: str, start_proxy: StartProxy, opened: Open, credentials: Credentials | None, complaint: str
) -> None:
    proxy = start_proxy(target, KEYS)
    with pytest.raises(RequestRefused, match=complaint) as refused:
        opened(Connection(proxy.endpoints, LONG_MS, credentials=credentials)).query_bounds(["orders"])
    assert "Check the access key and the secret key" in str(refused.value)
    assert "s3cr3t" not in str(refused.value)
    assert len(proxy.seen) == 1


def test_the_client_sends_its_certificate_if_the_server_requires_one(
    target: str, authority: CertificateAuthority, start_proxy: StartProxy, opened: Open
) -> None:
    proxy = start_proxy(target, certificate=authority.issue("server", "127.0.0.1"), asks_certificate=True)
    cert_file, key_file = map(str, authority.issue("client"))
    tls = Tls(str(authority.ca_file), cert_file, key_file)
    assert bodies(opened(Connection(proxy.endpoints, LONG_MS, tls=tls))) == [b"one", b"two", b"three"]
    with pytest.raises(BrokerUnavailable, match="requires a client certificate, set it and its key"):
        opened(Connection(proxy.endpoints, SHORT_MS, tls=Tls(str(authority.ca_file))))


def refusal(connection: Connection, opened: Open) -> RmqpullError:
    with pytest.raises(RmqpullError) as refused:
        opened(connection)
    assert connection.endpoints in str(refused.value)
    return refused.value


EXPIRED = r"Renew the server's certificate\.|which must not have expired\."
"""The second advice is for releases of gRPC that say no more, such as 1.67."""


def test_a_failed_handshake_is_an_error_at_once(
    target: str, authority: CertificateAuthority, start_proxy: StartProxy, opened: Open
) -> None:
    trusted = Tls(str(authority.ca_file))
    cases = [
        (
            authority.issue("server", "127.0.0.1"),
            Tls(),
            r"Check the CA file \(Tls\.ca_file, option tlsCaFile\): it must hold",
        ),
        (authority.issue("old", "127.0.0.1", is_expired=True), trusted, EXPIRED),
        (authority.issue("other", "broker.example"), trusted, "use the host name of the certificate."),
        (None, trusted, "The server does not speak TLS on this port: use another"),
    ]
    for certificate, tls, advice in cases:
        proxy = start_proxy(target, certificate=certificate)
        error = refusal(Connection(proxy.endpoints, LONG_MS, tls=tls), opened)
        assert isinstance(error, HandshakeFailed)
        assert str(error).startswith(f"No TLS connection to {proxy.endpoints} for DescribeServer: ")
        assert re.search(advice, str(error))
        assert proxy.seen == []


@pytest.mark.parametrize("has_answered_over_tls", [False, True])
def test_no_tls_at_a_server_with_tls_is_not_retried_until_the_request_timeout(
    target: str, authority: CertificateAuthority, start_proxy: StartProxy, opened: Open, has_answered_over_tls: bool
) -> None:
    proxy = start_proxy(target, certificate=authority.issue("server", "127.0.0.1"))
    if has_answered_over_tls:
        secured = Connection(proxy.endpoints, LONG_MS, credentials=CREDENTIALS, tls=Tls(str(authority.ca_file)))
        assert len(bodies(opened(secured))) == 3
    error = refusal(Connection(proxy.endpoints, LONG_MS, credentials=CREDENTIALS), opened)
    assert isinstance(error, HandshakeFailed)
    assert f"The server at {proxy.endpoints} closed the connection 4 times in a row without a response" in str(error)
    assert "Does it require TLS? Then set option tlsEnabled to true." in str(error)


def test_after_a_failed_handshake_the_certificate_files_are_read_again(
    target: str, authority: CertificateAuthority, start_proxy: StartProxy, opened: Open, tmp_path: Path
) -> None:
    proxy = start_proxy(target, certificate=authority.issue("server", "127.0.0.1"))
    ca_file = tmp_path / "ca.pem"
    stranger, _ = authority.issue("stranger")
    ca_file.write_bytes(stranger.read_bytes())
    connection = Connection(proxy.endpoints, LONG_MS, tls=Tls(str(ca_file)))
    assert isinstance(refusal(connection, opened), HandshakeFailed)
    ca_file.write_bytes(authority.ca_file.read_bytes())
    assert len(bodies(opened(connection))) == 3


@pytest.mark.parametrize("tls", [Tls(cert_file="client.pem"), Tls(key_file="client.key")])
def test_a_certificate_without_its_key_is_refused(tls: Tls, opened: Open) -> None:
    with pytest.raises(OptionError, match=r"needs both Tls\.cert_file and Tls\.key_file"):
        opened(Connection("127.0.0.1:1", LONG_MS, tls=tls))


def test_the_error_of_an_unusable_file_names_option_path_and_host(
    authority: CertificateAuthority, opened: Open, tmp_path: Path
) -> None:
    cert_file, key_file = authority.issue("client")
    other_key = authority.issue("another")[1]
    nonsense, nothing, encrypted = (tmp_path / name for name in ("nonsense.pem", "nothing.pem", "encrypted.key"))
    nonsense.write_bytes(b"\xff nonsense")
    encrypted.write_bytes(authority.encrypted(key_file))
    cases = [
        (Tls(str(nothing)), "tlsCaFile", nothing, "cannot be read on host"),
        (Tls(str(tmp_path)), "tlsCaFile", tmp_path, "cannot be read on host"),
        (Tls(str(nonsense)), "tlsCaFile", nonsense, "has no readable certificate in PEM format"),
        (Tls(str(key_file)), "tlsCaFile", key_file, "has no readable certificate in PEM format"),
        (Tls(None, str(nothing), str(key_file)), "tlsCertFile", nothing, "cannot be read on host"),
        (Tls(None, str(cert_file), str(nothing)), "tlsKeyFile", nothing, "cannot be read on host"),
        (Tls(None, str(nonsense), str(key_file)), "tlsCertFile", nonsense, "has no readable certificate in PEM format"),
        (Tls(None, str(cert_file), str(nonsense)), "tlsKeyFile", nonsense, "has no readable private key in PEM format"),
        (Tls(None, str(cert_file), str(other_key)), "tlsKeyFile", other_key, "is not the key of the certificate in"),
        (
            Tls(None, str(cert_file), str(encrypted)),
            "tlsKeyFile",
            encrypted,
            "is encrypted; passwords are",
        ),
    ]
    for tls, option, path, what in cases:
        with pytest.raises(OptionError) as refused:
            opened(Connection("127.0.0.1:1", LONG_MS, tls=tls))
        assert re.match(f"Option {option} is '{re.escape(str(path))}', which .*{what}", str(refused.value)), refused
        assert socket.gethostname() in str(refused.value)
