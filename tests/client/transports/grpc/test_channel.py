"""Calls end within a deadline, and survive a restart of the broker."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable, RequestRefused, Unserved
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import BrokerChannel, get_channel
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS, MESSAGING
from tests.harness.broker_processes import StartBroker

ROUTE, PULL = MESSAGING.methods["QueryRoute"], MESSAGING.methods["PullMessage"]
NOBODY = "127.0.0.1:1"  # a port that no broker gets
WAIT_S = 60

Ask = Callable[[BrokerChannel], Any]


def route(topic: str = "orders") -> service.QueryRouteRequest:
    return service.QueryRouteRequest(topic=v2.Resource(name=topic))


def by_call(channel: BrokerChannel) -> Any:
    return channel.call(ROUTE, route())


def by_start(channel: BrokerChannel) -> Any:
    return channel.start(ROUTE, route())()


def by_start_stream(channel: BrokerChannel) -> Any:
    return channel.start_stream(PULL, service.PullMessageRequest())()


@pytest.fixture
def channel() -> Iterator[BrokerChannel]:
    with running_broker({"orders": 1}) as broker:
        opened = BrokerChannel(Connection(broker.endpoints, 1000 * WAIT_S))
        yield opened
        opened.close()


@pytest.mark.parametrize("ask", [by_call, by_start])
def test_a_call_returns_the_response(channel: BrokerChannel, ask: Ask) -> None:
    assert [queue.topic.name for queue in ask(channel).message_queues] == ["orders"]


def test_the_client_id_begins_with_that_of_the_connection() -> None:
    with running_broker({"orders": 1}) as broker:
        whole_id = f"10.0.0.1@DEFAULT@{socket.gethostname()}@{os.getpid()}@rmqpull"
        broker.faults.fail("QueryRoute", "FORBIDDEN", client_id=whole_id)
        opened = BrokerChannel(Connection(broker.endpoints, 1000 * WAIT_S, client_id="10.0.0.1@DEFAULT"))
        with pytest.raises(RequestRefused, match="FORBIDDEN"):
            by_call(opened)
        opened.close()


def test_a_status_other_than_ok_is_a_refusal_with_its_code(channel: BrokerChannel) -> None:
    for ask in (channel.call, lambda method, request: channel.start(method, request)()):
        with pytest.raises(RequestRefused, match="responded to QueryRoute with TOPIC_NOT_FOUND") as refused:
            ask(ROUTE, route("no-such-topic"))
        assert refused.value.code == "TOPIC_NOT_FOUND"


def test_the_error_names_a_method_that_the_server_lacks() -> None:
    with running_broker(extensions="none") as broker:
        standard = BrokerChannel(Connection(broker.endpoints, 1000 * WAIT_S))
        with pytest.raises(Unserved, match=f"The server at {broker.endpoints} does not serve DescribeServer"):
            standard.call(COLUMNS.methods["DescribeServer"], v1.DescribeServerRequest())
        standard.close()


@pytest.mark.parametrize("ask", [by_call, by_start, by_start_stream])
def test_the_error_of_an_unavailable_broker_names_endpoints_and_time(ask: Ask) -> None:
    channel = BrokerChannel(Connection(NOBODY, 100))
    with pytest.raises(BrokerUnavailable, match=f"No broker responded to .* at {NOBODY} within 100 ms"):
        ask(channel)
    channel.close()


def test_connect_raises_if_no_broker_responds() -> None:
    with pytest.raises(BrokerUnavailable, match=NOBODY):
        connect(Connection(NOBODY, 100))


@pytest.mark.parametrize("ask", [by_call, by_start])
def test_a_call_survives_a_restart_of_the_broker(start_broker: StartBroker, tmp_path: Path, ask: Ask) -> None:
    broker = start_broker({"orders": 1}, data_dir=tmp_path)
    channel = BrokerChannel(Connection(broker.endpoints, 1000 * WAIT_S))
    assert ask(channel).message_queues
    broker.kill()
    answers: list[Any] = []
    asking = threading.Thread(target=lambda: answers.append(ask(channel)), daemon=True)
    asking.start()
    broker.start()
    asking.join(WAIT_S)
    assert [answer.message_queues[0].topic.name for answer in answers] == ["orders"]
    channel.close()


def test_a_call_in_flight_survives_a_restart_of_the_broker(start_broker: StartBroker, tmp_path: Path) -> None:
    broker = start_broker({"orders": 1}, data_dir=tmp_path)
    channel = BrokerChannel(Connection(broker.endpoints, 1000 * WAIT_S))
    parked = v1.PullColumnsRequest(
        group="g",
        queues=[v1.QueuePull(queue=v1.Queue(topic="orders", broker_name="broker-a"))],
        long_polling_timeout_ms=1,
    )
    assert channel.call(COLUMNS.methods["PullColumns"], parked).queues
    parked.long_polling_timeout_ms = 30_000
    answer = channel.start(COLUMNS.methods["PullColumns"], parked)
    broker.restart()
    parked.long_polling_timeout_ms = 1
    assert len(answer().queues) == 1
    channel.close()


def test_a_process_has_one_channel_per_connection() -> None:
    assert get_channel(Connection(NOBODY, 5)) is get_channel(Connection(NOBODY, 5))
    assert get_channel(Connection(NOBODY, 5)) is not get_channel(Connection(NOBODY, 6))
    assert get_channel(Connection(NOBODY, 5)) is not get_channel(Connection("127.0.0.1:2", 5))


FORK = """
import os, sys
from rmqpull_client import connect
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_client.connection import Connection

endpoints = sys.argv[1]
parents = get_channel(Connection(endpoints, 60_000))
assert "orders" in connect(Connection(endpoints, 60_000)).query_bounds(["orders"])
child = os.fork()
if child == 0:
    assert get_channel(Connection(endpoints, 60_000)) is not parents
    os._exit(0 if "orders" in connect(Connection(endpoints, 60_000)).query_bounds(["orders"]) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert get_channel(Connection(endpoints, 60_000)) is parents
assert "orders" in connect(Connection(endpoints, 60_000)).query_bounds(["orders"])
print("both")
"""


@pytest.mark.processes
def test_a_forked_process_makes_its_own_channel() -> None:
    with running_broker({"orders": 1}) as broker:
        command = [sys.executable, "-c", FORK, broker.endpoints]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (ran.stdout, ran.returncode) == ("both\n", 0), ran.stderr


def test_calls_survive_graceful_restarts(start_broker: StartBroker, tmp_path: Path) -> None:
    """A broker that shuts down cancels calls, which are then retried."""
    broker = start_broker({"orders": 4}, data_dir=tmp_path)
    client = connect(Connection(broker.endpoints, 60_000))
    stop = threading.Event()

    def ask() -> int:
        asked = 0
        while not stop.is_set():
            assert len(client.query_bounds(["orders"])["orders"].queues) == 4
            asked += 1
        return asked

    with ThreadPoolExecutor() as threads:
        askers = [threads.submit(ask) for _ in range(4)]
        for _ in range(4):
            broker.stop()
            broker.start()
        stop.set()
        assert all(asker.result(WAIT_S) for asker in askers)
