"""The ports of the brokers: what routes say about them, idle connections, and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import socket
import ssl
from pathlib import Path

import pytest

from processes.apache.calls import Calls
from rmqpull_broker.core.clients import unfinished_frames
from rmqpull_broker.lean import allow_many_connections
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.remoting import listener
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.remoting.listener import RemotingListener
from rmqpull_broker.server.remoting.ports import RemotingAddress
from rmqpull_broker.testing import running_broker
from rmqpull_broker.testing.process import BrokerProcessError
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.routes import ClusterInfo
from tests.harness.broker_processes import StartBroker
from tests.harness.remoting_member import RemotingMember
from tests.harness.secured_proxy import CertificateAuthority
from tests.harness.waiting import wait_until

IDLE_CONNECTIONS = 10_000


def read_addresses(address: str, tls: ssl.SSLContext | None = None) -> list[str]:
    body = Calls(tls=tls).call(address, RequestCode.GET_BROKER_CLUSTER_INFO).body
    return [data.broker_addrs[0] for data in ClusterInfo.decode(body).brokers.values()]


def find_two_free_ports() -> int:
    for _ in range(100):
        with socket.create_server(("127.0.0.1", 0)) as first, contextlib.suppress(OSError):
            port: int = first.getsockname()[1]
            with socket.create_server(("127.0.0.1", port + 1)):
                return port
    raise AssertionError("there are no two free ports side by side")


def test_a_connection_that_is_idle_for_two_minutes_is_closed() -> None:
    with running_broker(remoting=True, clock="manual") as broker:
        address = broker.remoting_addresses[0]
        with RemotingMember(address) as idle, RemotingMember(address) as busy:
            idle.call(RequestCode.GET_BROKER_CLUSTER_INFO)
            for _ in range(12):
                busy.call(RequestCode.GET_BROKER_CLUSTER_INFO)
                broker.clock.advance(10_000)
            assert idle.is_closed()
            assert busy.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0


HALF_FRAME = (16_000_000).to_bytes(4, "big") + b"\0\0\0\x40" + bytes(1_000)


def connect(address: str, source: str = "127.0.0.1") -> socket.socket:
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), 10, (source, 0))


def test_a_frame_that_never_ends_closes_its_connection_and_no_other() -> None:
    """However often a byte comes: the connection is not idle."""
    with running_broker(remoting=True, clock="manual") as broker:
        address = broker.remoting_addresses[0]
        with connect(address) as slow, RemotingMember(address) as other:
            slow.sendall(HALF_FRAME)
            for _ in range(4):
                broker.clock.advance(10_000)
                other.call(RequestCode.GET_BROKER_CLUSTER_INFO)
            with contextlib.suppress(ConnectionResetError):
                assert slow.recv(1) == b""
            assert other.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0


def test_an_address_that_holds_too_much_is_not_read_while_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half frames of one address. Another address, and whole requests of the same one, are served meanwhile."""
    monkeypatch.setattr(unfinished_frames, "HELD_BYTES_MAX", 4_000)
    monkeypatch.setattr(unfinished_frames, "READ_ON", 0)
    with running_broker(remoting=True, clock="manual") as broker, contextlib.ExitStack() as stack:
        address = broker.remoting_addresses[0]
        assert broker._server._remoting is not None
        unfinished = broker._server._remoting._unfinished
        halves = [stack.enter_context(connect(address, "127.0.0.2")) for _ in range(5)]
        for half in halves:
            half.sendall(HALF_FRAME)
        wait_until(lambda: len(unfinished.paused) == 5, "held up")
        halves[0].sendall(bytes(100_000))
        assert is_served(address)
        assert unfinished.held_bytes == 5 * len(HALF_FRAME)
        for _ in range(4):
            broker.clock.advance(10_000)
        wait_until(lambda: unfinished.held_bytes == 0, "closed, because the frames are late")
        stack.enter_context(connect(address, "127.0.0.2")).sendall(HALF_FRAME)
        wait_until(lambda: unfinished.held_bytes == len(HALF_FRAME), "read")
        assert not unfinished.paused


def test_a_client_that_leaves_while_it_is_not_read_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its unfinished frame has minutes left, and holds up the others of its address."""
    monkeypatch.setattr(unfinished_frames, "HELD_BYTES_MAX", 2_000)
    monkeypatch.setattr(unfinished_frames, "READ_ON", 0)
    with running_broker(remoting=True, clock="manual") as broker, contextlib.ExitStack() as stack:
        address = broker.remoting_addresses[0]
        assert broker._server._remoting is not None
        unfinished = broker._server._remoting._unfinished
        halves = [stack.enter_context(connect(address)) for _ in range(3)]
        for half in halves:
            half.sendall(HALF_FRAME)
        wait_until(lambda: len(unfinished.paused) == 3, "held up")
        halves[0].sendall(bytes(100_000))  # unread when the client leaves
        for half in halves[:2]:
            half.close()
        broker.clock.advance(1_000)
        wait_until(lambda: unfinished.held_bytes == len(HALF_FRAME), "noticed")
        assert not unfinished.paused


def test_connections_above_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 2)
    with running_broker(remoting=True) as broker:
        address = broker.remoting_addresses[0]
        with RemotingMember(address) as first, RemotingMember(address) as second:
            assert [each.call(RequestCode.GET_BROKER_CLUSTER_INFO).code for each in (first, second)] == [0, 0]
            with RemotingMember(address) as third:
                assert third.is_closed()
            second.close()
            wait_until(lambda: is_served(address), "served again")


class From(RemotingConnection):
    """A connection from an address."""

    def __init__(self, remote_address: str) -> None:
        self.remote_address = remote_address


def test_an_address_that_has_most_connections_leaves_some_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lone address has all that it may; then another one comes, and later the first one gives some back."""
    monkeypatch.setattr(listener, "CONNECTIONS_MAX", 160)
    ports = RemotingListener(Clients(ManualClock(0)), ManualClock(0))
    of_one = [connection for port in range(1_000) if ports.add(connection := From(f"10.0.0.1:{port}")) is not None]
    assert 160 <= len(of_one) < 180
    assert ports.add(From("10.0.0.2:1")) is not None
    for connection, channel_id in zip(of_one, list(ports.connections), strict=False):
        connection.channel_id = channel_id
        ports.remove(connection)
    assert len(ports.connections) == 1
    assert ports.add(From("10.0.0.1:1")) is not None


def is_served(address: str) -> bool:
    with RemotingMember(address) as member, contextlib.suppress(ConnectionError):
        return member.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
    return False


def test_ten_thousand_idle_connections_keep_nobody_from_being_served(start_broker: StartBroker) -> None:
    allow_many_connections()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < IDLE_CONNECTIONS + 1_000:
        pytest.skip("this process may not open as many files")
    broker = start_broker(remoting="127.0.0.1:0")
    host, port = broker.remoting_addresses[0].split(":")
    with contextlib.ExitStack() as idle:
        for _ in range(IDLE_CONNECTIONS):
            idle.enter_context(socket.create_connection((host, int(port)), 60))
        with RemotingMember(broker.remoting_addresses[0]) as member:
            assert member.call(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0


@pytest.mark.parametrize(
    ("host", "ip"),
    [("localhost", "127.0.0.1"), ("10.0.0.7", "10.0.0.7"), ("::1", "::1"), ("unknown.invalid", "127.0.0.1")],
)
def test_ids_of_messages_have_an_address_for_each_host(host: str, ip: str) -> None:
    async def bind() -> str:
        clock = ManualClock(0)
        ports = RemotingListener(Clients(clock), clock)
        await ports.bind(RemotingAddress([("127.0.0.1", 0)], [(host, 9876)]), ["broker-a"])
        await ports.stop(0)
        return ports.sites[0].ip

    assert asyncio.run(bind()) == ip


def test_a_stopped_broker_closes_its_connections() -> None:
    with running_broker(remoting=True) as broker:
        member = RemotingMember(broker.remoting_addresses[0])
        member.call(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert member.is_closed()
    member.close()


def test_routes_tell_advertised_addresses(start_broker: StartBroker) -> None:
    arguments = ("--brokers", "broker-a,broker-b", "--remoting-advertised", "10.0.0.7:9876,localhost:9877")
    broker = start_broker(remoting="127.0.0.1:0", arguments=arguments)
    assert broker.remoting_addresses == ["10.0.0.7:9876", "localhost:9877"]


def test_a_broker_on_all_addresses_tells_the_loopback_address(start_broker: StartBroker) -> None:
    broker = start_broker(remoting="0.0.0.0:0")
    (address,) = broker.remoting_addresses
    assert address.startswith("127.0.0.1:")
    assert read_addresses(address) == [address]


def test_several_brokers_take_the_ports_after_the_first(start_broker: StartBroker) -> None:
    port = find_two_free_ports()
    broker = start_broker(remoting=f"127.0.0.1:{port}", arguments=("--brokers", "broker-a,broker-b"))
    assert broker.remoting_addresses == [f"127.0.0.1:{port}", f"127.0.0.1:{port + 1}"]


def test_a_port_in_use_is_refused_with_its_setting(start_broker: StartBroker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BrokerProcessError, match=f"cannot listen on {address}.*--remoting"):
            start_broker(remoting=address)


def test_clients_with_a_certificate_are_served_over_tls(
    start_broker: StartBroker, authority: CertificateAuthority
) -> None:
    certificate, key = authority.issue("127.0.0.1", "127.0.0.1")
    arguments = ["--remoting-tls-mode", "enforcing"]
    arguments += ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    broker = start_broker(remoting="127.0.0.1:0", arguments=(*arguments, "--tls-client-ca", str(authority.ca_file)))
    (address,) = broker.remoting_addresses
    tls = ssl.create_default_context(cafile=str(authority.ca_file))
    with pytest.raises(OSError):  # noqa: PT011 (an alert of TLS, or a closed connection)
        read_addresses(address, tls)
    with pytest.raises(OSError):  # noqa: PT011
        read_addresses(address)
    tls.load_cert_chain(*authority.issue("client"))
    assert read_addresses(address, tls) == [address]


def test_a_bad_certificate_is_refused_before_the_start(start_broker: StartBroker, tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_text("no certificate")
    arguments = ["--tls-key", str(tmp_path / "bad.pem")]
    arguments += ["--tls-certificate", str(tmp_path / "bad.pem")]
    with pytest.raises(BrokerProcessError, match="the files for TLS cannot be used"):
        start_broker(remoting="127.0.0.1:0", arguments=arguments)


def test_a_restart_uses_the_same_ports(start_broker: StartBroker) -> None:
    broker = start_broker(remoting="127.0.0.1:0", arguments=("--brokers", "broker-a,broker-b"))
    before = list(broker.remoting_addresses)
    broker.restart()
    assert broker.remoting_addresses == before
    assert read_addresses(before[0]) == before
