"""The ports of logical brokers, and those of the VIP channel two below them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from processes.ports import ReservedPorts
from rmqpull_broker.server.addresses import PortUnavailable
from rmqpull_broker.server.remoting.dispatch import NOT_ON_VIP
from rmqpull_broker.server.remoting.ports import RECEIVE_BUFFER_BYTES, RemotingAddress, bind_ports
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from tests.harness.broker_processes import StartBroker
from tests.harness.remoting_member import RemotingMember

SEND = {"a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0", "j": "0"}
HOST = "127.0.0.1"


def vip_of(address: str) -> str:
    """The address that Java's clients up to 4.5.0 make of one."""
    host, port = address.rsplit(":", 1)
    return f"{host}:{int(port) - 2}"


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    names = ["broker-a", "broker-b", "broker-c"]
    with running_broker({"orders": 1}, brokers=names, remoting=True, remoting_vip=True) as running:
        yield running


@pytest.fixture
def ports() -> Iterator[int]:
    """The first of ten ports."""
    with ReservedPorts() as reserved:
        yield reserved.first


@pytest.mark.parametrize("index", range(3))
def test_each_logical_broker_takes_sends_two_below_its_port(broker: RunningBroker, index: int) -> None:
    address = broker.remoting_addresses[index]
    with RemotingMember(vip_of(address)) as member:
        sent = member.call(RequestCode.SEND_MESSAGE_V2, SEND, b"paid")
    assert sent.code == 0
    (row,) = [row for row in broker.messages("orders") if row.store_host == address]
    assert row.message.body == b"paid"


@pytest.mark.parametrize("code", RequestCode)
def test_only_pulls_and_pops_are_refused_there(broker: RunningBroker, code: RequestCode) -> None:
    """As a real 5.3.3 refuses them: ``tests/clients/test_vip_channel.py`` compares all codes."""
    address = broker.remoting_addresses[0]
    with RemotingMember(address) as main, RemotingMember(vip_of(address)) as vip:
        found = [(response.code, response.remark) for response in (main.call(code), vip.call(code))]
    refusal = (ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {code} not supported")
    if code in NOT_ON_VIP:
        assert (found[0] == refusal, found[1]) == (False, refusal)
    else:
        assert found[0] == found[1]


def test_without_the_setting_nobody_listens_there() -> None:
    with running_broker(remoting=True) as broker, pytest.raises(ConnectionRefusedError):
        RemotingMember(vip_of(broker.remoting_addresses[0]))


@pytest.mark.parametrize(("advertised", "vip"), [((), 3), (("elsewhere", 8), 6)])
def test_the_channel_is_two_below_what_routes_tell(
    ports: int, advertised: tuple[str, int] | tuple[()], vip: int
) -> None:
    told = [(advertised[0], ports + advertised[1])] if advertised else []
    main, channel = bind_ports(RemotingAddress([(HOST, ports + 5)], told, has_vip=True), 0)
    assert channel is not None
    with main, channel:
        assert [bound.getsockname() for bound in (main, channel)] == [(HOST, ports + 5), (HOST, ports + vip)]


def test_a_port_that_another_program_has_is_named(ports: int) -> None:
    with socket.create_server((HOST, ports)):
        for _ in range(2):  # the port itself is free again
            with pytest.raises(PortUnavailable, match=f"{HOST}:{ports} for the VIP channel, two below {ports + 2}: "):
                bind_ports(RemotingAddress([(HOST, ports + 2)], has_vip=True), 0)
        with closing(bind_ports(RemotingAddress([(HOST, ports + 2)]), 0).main) as bound:
            assert bound.getsockname() == (HOST, ports + 2)


def test_the_system_holds_a_fixed_number_of_bytes_for_each_connection() -> None:
    with closing(bind_ports(RemotingAddress([(HOST, 0)]), 0).main) as bound:
        bound.listen()
        bound.setblocking(True)
        with socket.create_connection(bound.getsockname(), 60), bound.accept()[0] as accepted:
            # Linux doubles it, for its own records.
            held_bytes = accepted.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)
            assert held_bytes in (RECEIVE_BUFFER_BYTES, 2 * RECEIVE_BUFFER_BYTES)


def test_a_port_of_another_broker_is_named(ports: int) -> None:
    with pytest.raises(PortUnavailable, match=f"port {ports}, two below {ports + 2}, is that of another broker"):
        bind_ports(RemotingAddress([(HOST, ports + 2)], has_vip=True), 0, {ports})


def test_a_free_port_has_a_free_one_two_below() -> None:
    """All ports but the last one that is tried are those of another broker."""

    class AllButTheLast:
        def __init__(self) -> None:
            self.tried: list[object] = []

        def __contains__(self, port: object) -> bool:
            self.tried.append(port)
            return len(self.tried) < 5

    taken = AllButTheLast()
    main, channel = bind_ports(RemotingAddress([(HOST, 0)], has_vip=True), 0, taken)
    assert channel is not None
    with main, channel:
        assert channel.getsockname()[1] == main.getsockname()[1] - 2 == taken.tried[-1]


def test_the_flag_of_serve(start_broker: StartBroker) -> None:
    broker = start_broker({"orders": 1}, remoting=f"{HOST}:0", arguments=["--remoting-vip"])
    with RemotingMember(vip_of(broker.remoting_addresses[0])) as member:
        assert member.call(RequestCode.SEND_MESSAGE_V2, SEND, b"paid").code == 0
