"""Java's clients up to 4.5.0, which send to the port two below that of a broker: the VIP channel (rules 4.12)."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from rmqpull_broker.server.remoting.dispatch import NOT_ON_VIP
from rmqpull_broker.testing import running_broker
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from tests.clients.programs.java.old_clients import VERSIONS, send_and_pull
from tests.harness.client_servers import BROKER, ClientServers
from tests.harness.remoting_member import RemotingMember

BODIES = ["one", "two"]
DONE = ["sent SEND_OK", "sent SEND_OK", "pulled one", "pulled two", "end 2"]
SERVED = (
    *(RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE, RequestCode.QUERY_CONSUMER_OFFSET),
    *(RequestCode.GET_MAX_OFFSET, RequestCode.ACK_MESSAGE, RequestCode.CHANGE_MESSAGE_INVISIBLETIME),
)


@pytest.mark.processes
@pytest.mark.parametrize("version", VERSIONS)
def test_clients_up_to_4_5_0_send_and_pull_with_the_vip_channel(version: str, tmp_path: Path) -> None:
    """VIP channel: producers and pull consumers of 4.3.2, 4.4.0 and 4.5.0 work with `--remoting-vip`."""
    with running_broker({"orders": 1}, remoting=True, remoting_vip=True) as broker:
        assert send_and_pull(version, broker.remoting_addresses[0], "orders", "readers", BODIES, tmp_path) == DONE


def test_the_same_program_does_the_same_on_a_real_broker(client_servers: ClientServers, tmp_path: Path) -> None:
    """VIP channel: the same producer and consumer work on a real RocketMQ."""
    server, topic = client_servers.find_server("apache"), f"topic-{uuid.uuid4().hex[:8]}"
    server.put_topic(topic, 1)
    assert send_and_pull("4.4.0", server.address, topic, f"{topic}-readers", BODIES, tmp_path) == DONE


@pytest.mark.processes
def test_without_the_vip_channel_a_send_fails_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """VIP channel: without `--remoting-vip`, sends fail, and the broker's log says what is missing."""
    with running_broker({"orders": 1}, remoting=True) as broker:
        line, *_ = send_and_pull("4.4.0", broker.remoting_addresses[0], "orders", "readers", BODIES, tmp_path)
    assert line.startswith("failed Send [3] times, still failed")
    assert sum("start it with --remoting-vip" in record.message for record in caplog.records) == 1


@pytest.mark.parametrize("code", sorted({*NOT_ON_VIP, *SERVED}))
def test_a_real_broker_refuses_the_same_requests_there(client_servers: ClientServers, code: RequestCode) -> None:
    """VIP channel: pulls and pops are refused there, and other requests served, as on a real RocketMQ."""
    server = client_servers.find_server("apache")
    host, port = server.administration.find_masters()[BROKER].rsplit(":", 1)
    with RemotingMember(f"{host}:{int(port) - 2}") as member:
        response = member.call(code)
    assert (response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED) is (code in NOT_ON_VIP), response
