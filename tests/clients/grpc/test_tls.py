"""Clients that check the certificate of a server. That of Java trusts any: see `test_java.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from processes.grpc_clients.lacks import Language
from processes.maven import SoftwareMissing
from tests.clients.programs.grpc.clients import LANGUAGES, ClientRefused, GrpcClients
from tests.harness.broker_processes import StartBroker
from tests.harness.secured_proxy import CertificateAuthority

TOPIC = "orders"
ROOTS = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"
"""The variable by which gRPC learns of authorities."""


@pytest.mark.parametrize("language", [pytest.param(each, id=f"{each}-emulator") for each in ("python", "node")])
def test_a_client_is_served_that_knows_the_authority_of_the_certificate(
    language: Language,
    start_broker: StartBroker,
    authority: CertificateAuthority,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """TLS, on the emulator alone: the certificate and its key are files, and the authority is known to the client."""
    certificate, key = authority.issue("127.0.0.1", "127.0.0.1")
    files = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    broker = start_broker({TOPIC: 1}, arguments=["--tls-listen", "127.0.0.1:0", *files])
    assert broker.tls_endpoints is not None
    with start_clients(language, tmp_path / "stranger") as strangers, pytest.raises(ClientRefused):
        strangers.start("producer", broker.tls_endpoints, topics=[TOPIC], tls=True).call("send", topic=TOPIC, body="no")
    monkeypatch.setenv(ROOTS, str(authority.ca_file))
    with start_clients(language, tmp_path / "knowing") as clients:
        producer = clients.start("producer", broker.tls_endpoints, topics=[TOPIC], tls=True)
        sent = producer.call("send", topic=TOPIC, body="one")
        options = {"group": "readers", "subscriptions": {TOPIC: "*"}, "awaitMs": 5_000, "tls": True}
        (received,) = clients.start("simple", broker.tls_endpoints, **options).receive()
    assert (received.message_id, received.body) == (sent["messageId"], "one")


def start_clients(language: Language, folder: Path) -> GrpcClients:
    """Starts the clients of a language, with the environment of this moment."""
    try:
        return GrpcClients(LANGUAGES[language](folder))
    except SoftwareMissing as missing:
        pytest.skip(f"{missing}.")
