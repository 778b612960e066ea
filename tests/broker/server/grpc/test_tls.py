"""gRPC clients that speak TLS, on a port of their own."""

from __future__ import annotations

import resource
import socket
import ssl
import sys
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from cryptography import x509

from rmqpull_broker.config_values import SettingError
from rmqpull_broker.lean import allow_many_connections
from rmqpull_broker.server import app
from rmqpull_broker.server.grpc import connections
from rmqpull_broker.server.grpc.tls import make_own_certificate
from rmqpull_broker.testing import BrokerProcessError, running_broker
from rmqpull_client import Connection, RmqpullError, Tls, connect
from tests.harness.broker_processes import StartBroker
from tests.harness.secured_proxy import CertificateAuthority
from tests.harness.waiting import wait_until

TOPIC = "orders"
SILENT_CONNECTIONS = 1_000


# ---- a certificate of the broker's own


def test_clients_with_and_without_tls_share_the_broker(tmp_path: Path) -> None:
    with running_broker(topics={TOPIC: 1}, tls=True) as broker:
        assert broker.tls_endpoints is not None
        publish(Connection(broker.endpoints), b"plain")
        publish(Connection(broker.tls_endpoints, tls=trust(broker.tls_endpoints, tmp_path)), b"secured")
        assert [row.message.body for row in broker.messages(TOPIC)] == [b"plain", b"secured"]


@pytest.mark.proves("TLS for gRPC clients")
def test_a_port_with_tls_serves_nothing_else() -> None:
    with running_broker(tls=True) as broker:
        assert broker.tls_endpoints is not None
        with pytest.raises(RmqpullError):
            publish(Connection(broker.tls_endpoints, request_timeout_ms=1_000), b"plain")


def silence(endpoints: str, stack: ExitStack) -> list[socket.socket]:
    """Connects a thousand times, and says nothing."""
    allow_many_connections()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4 * SILENT_CONNECTIONS:
        pytest.skip("this process may not open as many files")
    host, port = endpoints.split(":")
    connect_once = partial(socket.create_connection, (host, int(port)), 60)
    return [stack.enter_context(connect_once()) for _ in range(SILENT_CONNECTIONS)]


def is_open(silent: socket.socket) -> bool:
    silent.setblocking(False)
    try:
        return silent.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionResetError:
        return False


def set_handshake_time(monkeypatch: pytest.MonkeyPatch, time_ms: int) -> None:
    changed = dict(connections.OPTIONS) | {"grpc.server_handshake_timeout_ms": time_ms}
    assert changed.keys() == dict(connections.OPTIONS).keys()
    monkeypatch.setattr(app, "OPTIONS", tuple(changed.items()))


def test_a_thousand_silent_connections_keep_nobody_from_being_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_handshake_time(monkeypatch, 600_000)
    with running_broker(topics={TOPIC: 1}, tls=True) as broker, ExitStack() as stack:
        assert broker.tls_endpoints is not None
        silent = silence(broker.tls_endpoints, stack)
        publish(Connection(broker.tls_endpoints, tls=trust(broker.tls_endpoints, tmp_path)), b"secured")
        assert sum(map(is_open, silent)) == SILENT_CONNECTIONS


def test_silent_connections_are_closed_after_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    set_handshake_time(monkeypatch, 200)
    with running_broker(topics={TOPIC: 1}, tls=True) as broker, ExitStack() as stack:
        assert broker.tls_endpoints is not None
        silent = silence(broker.tls_endpoints, stack)
        wait_until(lambda: not any(map(is_open, silent)), "closed")


def test_a_client_that_does_not_trust_the_certificate_is_not_served(authority: CertificateAuthority) -> None:
    with running_broker(tls=True) as broker:
        assert broker.tls_endpoints is not None
        stranger = Connection(broker.tls_endpoints, tls=Tls(ca_file=str(authority.ca_file)), request_timeout_ms=1_000)
        with pytest.raises(RmqpullError):
            publish(stranger, b"unsent")


@pytest.mark.parametrize("host", ["0.0.0.0", "broker.example", "127.0.0.1"])
def test_the_certificate_is_for_this_machine_and_the_host_that_the_broker_listens_on(host: str) -> None:
    certificate = x509.load_pem_x509_certificate(make_own_certificate(host)[0])
    named = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    names = {*named.get_values_for_type(x509.DNSName), *map(str, named.get_values_for_type(x509.IPAddress))}
    assert names == {"localhost", "127.0.0.1", "::1", host}


def test_a_host_that_no_certificate_can_name_is_left_out() -> None:
    assert make_own_certificate("bücher.example")


def test_no_key_is_used_twice() -> None:
    assert make_own_certificate("localhost")[1] != make_own_certificate("localhost")[1]


def test_without_the_library_that_makes_certificates_files_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(SettingError, match=r"pip install 'rmqpull\[tls\]'"), running_broker(tls=True):
        pass


# ---- the command line


def test_files_name_the_certificate_and_the_authorities_of_clients(
    start_broker: StartBroker, authority: CertificateAuthority
) -> None:
    certificate, key = authority.issue("127.0.0.1", "127.0.0.1")
    arguments = ["--tls-listen", "127.0.0.1:0", "--tls-certificate", str(certificate), "--tls-key", str(key)]
    broker = start_broker({TOPIC: 1}, arguments=(*arguments, "--tls-client-ca", str(authority.ca_file)))
    assert broker.tls_endpoints is not None
    ca_file = str(authority.ca_file)
    with pytest.raises(RmqpullError):
        publish(Connection(broker.tls_endpoints, tls=Tls(ca_file=ca_file), request_timeout_ms=1_000), b"refused")
    cert_file, key_file = map(str, authority.issue("client"))
    publish(Connection(broker.tls_endpoints, tls=Tls(ca_file, cert_file, key_file)), b"known")
    with closing(connect(broker.endpoints)) as client:
        (bounds,) = client.query_bounds([TOPIC])[TOPIC].queues.values()
    assert bounds == (0, 1)


def test_the_ready_line_has_the_ports_of_all_protocols(start_broker: StartBroker) -> None:
    arguments = ["--tls-listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"]
    broker = start_broker(remoting="127.0.0.1:0", arguments=arguments)
    told = [broker.endpoints, *broker.remoting_addresses, broker.tls_endpoints, broker.metrics_endpoints]
    assert len({address for address in told if address}) == 4


def test_a_port_in_use_is_refused_with_its_setting(start_broker: StartBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BrokerProcessError, match=f"cannot listen on {address}.*--tls-listen"):
            start_broker(arguments=["--tls-listen", address])


def test_a_bad_certificate_is_refused_before_the_start(start_broker: StartBroker, tmp_path: Path) -> None:
    bad = str(tmp_path / "bad.pem")
    Path(bad).write_text("no certificate", encoding="utf-8")
    with pytest.raises(BrokerProcessError, match=r"the files for TLS cannot be used.*bad\.pem"):
        start_broker(arguments=["--tls-listen", "127.0.0.1:0", "--tls-certificate", bad, "--tls-key", bad])


def publish(connection: Connection, body: bytes) -> None:
    """Publishes one message."""
    with closing(connect(connection)) as client:
        client.publish(TOPIC, pa.record_batch({"body": [body]}))


def trust(endpoints: str, folder: Path) -> Tls:
    """Returns settings of a client that trusts the certificate which a server shows."""
    host, _, port = endpoints.rpartition(":")
    file = folder / "shown.pem"
    file.write_text(ssl.get_server_certificate((host, int(port))), encoding="utf-8")
    return Tls(ca_file=str(file))
