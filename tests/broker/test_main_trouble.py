"""What an operating system does to a broker: files that may not grow, few descriptors, a process that is stopped.

docs/durability.md has the table. Full disks and clocks that are set are tested where they are handled.
"""

from __future__ import annotations

import contextlib
import resource
import signal
import socket
import time
from pathlib import Path

import pytest

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.broker_processes import StartProcess
from tests.harness.remoting_member import RemotingMember
from tests.harness.rpc_client import Connect, RpcClient
from tests.harness.waiting import WAIT_S, wait_until

QUEUE = v2.MessageQueue(topic=v2.Resource(name="orders"), id=0)
BODY = bytes(1 << 20)
FILES = 64


def read_numbers(client: RpcClient) -> list[int]:
    """The numbers at the beginning of all bodies."""
    numbers: list[int] = []
    while (pulled := client.pull(QUEUE, len(numbers))).code == "OK":
        numbers += [int(body[:8]) for body in pulled.bodies]
    return numbers


def make_request(number: int) -> service.SendMessageRequest:
    properties = v2.SystemProperties(message_id=str(number))
    message = v2.Message(topic=QUEUE.topic, body=b"%08d" % number + BODY, system_properties=properties)
    return service.SendMessageRequest(messages=[message])


def try_to_send(client: RpcClient, number: int) -> str:
    return client.code("SendMessage", make_request(number))


def test_files_that_may_not_grow_refuse_messages_until_they_may(
    start_process: StartProcess, connect: Connect, tmp_path: Path
) -> None:
    broker = start_process("--topic", "orders:1", data_dir=tmp_path)
    client = connect(broker.endpoints)
    kept = [number for number in range(3) if try_to_send(client, number) == "OK"]
    soft, hard = resource.prlimit(broker.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (6 << 20, hard))
    codes = {number: try_to_send(client, number) for number in range(3, 16)}
    assert set(codes.values()) == {"OK", "INTERNAL_SERVER_ERROR"}
    kept += [number for number, code in codes.items() if code == "OK"]
    assert read_numbers(client) == kept
    assert "File too large" in broker.log
    assert "Traceback" not in broker.log
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (soft, hard))
    assert try_to_send(client, 16) == "OK"
    broker.kill()
    assert read_numbers(connect(start_process(data_dir=tmp_path).endpoints)) == [*kept, 16]


def test_with_few_file_descriptors_those_who_are_connected_go_on(
    start_process: StartProcess, connect: Connect, tmp_path: Path
) -> None:
    broker = start_process("--topic", "orders:1", "--remoting", "127.0.0.1:0", data_dir=tmp_path)
    resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (FILES, FILES))
    address = broker.remoting_addresses[0]
    host, port = address.split(":")
    client = connect(broker.endpoints)
    assert try_to_send(client, 0) == "OK"
    with RemotingMember(address) as member, contextlib.ExitStack() as crowd:
        member.beat("readers")
        for _ in range(3 * FILES):
            crowd.enter_context(socket.create_connection((host, int(port)), WAIT_S))
        assert {try_to_send(client, number) for number in range(1, 20)} == {"OK"}
        assert member.list_members("readers") == ["tester"]
    wait_until(lambda: can_connect(address), "a place for the next client")
    assert read_numbers(client) == list(range(20))
    broker.stop()
    assert "cannot accept connections: Too many open files" in broker.log
    assert "Traceback" not in broker.log


def can_connect(address: str) -> bool:
    with contextlib.suppress(OSError, AssertionError), RemotingMember(address) as member:
        return bool(member.beat("others")) or True
    return False


@pytest.mark.parametrize("pause_s", [1, pytest.param(15, marks=pytest.mark.nightly)])
def test_a_broker_that_stood_still_goes_on_with_what_waits(
    start_process: StartProcess, connect: Connect, tmp_path: Path, pause_s: int
) -> None:
    broker = start_process("--topic", "orders:1", "--remoting", "127.0.0.1:0", data_dir=tmp_path)
    client, other = connect(broker.endpoints), connect(broker.endpoints)
    parked = client.start_pull(QUEUE, 0, wait_ms=30_000)
    broker.send_signal(signal.SIGSTOP)
    try:
        sent_meanwhile = other.start("SendMessage", make_request(1))
        time.sleep(pause_s)
    finally:
        broker.send_signal(signal.SIGCONT)
    assert v2.Code.Name(sent_meanwhile.await_response().status.code) == "OK"
    assert [body[:8] for body in client.finish_pull(parked).bodies] == [b"00000001"]
    broker.kill()
    assert read_numbers(connect(start_process(data_dir=tmp_path).endpoints)) == [1]
