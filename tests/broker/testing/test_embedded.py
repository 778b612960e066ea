"""The embedded broker: state, clock, faults, and that nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import grpc
import pytest

from rmqpull_broker.core.errors import BadRequest, TopicNotFound
from rmqpull_broker.core.model import Message, TopicType
from rmqpull_broker.testing import running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import Connect
from tests.harness.waiting import wait_until

ROUTE = service.QueryRouteRequest(topic=v2.Resource(name="orders"))


def test_messages_can_be_sent_and_read_without_a_client() -> None:
    with running_broker(topics={"orders": 2}) as broker:
        broker.send("orders", b"one", Message(b"two", "ID", tags="red"))
        assert [row.message.body for row in broker.messages("orders")] == [b"one", b"two"]
        assert [bounds.max_offset for bounds in broker.bounds("orders").values()] == [1, 1]
        assert broker.messages("orders")[0].message.msg_id


def test_topics_can_be_created_and_deleted() -> None:
    with running_broker() as broker:
        broker.create_topic("orders", queues=3, topic_type=TopicType.FIFO)
        assert len(broker.bounds("orders")) == 3
        broker.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            broker.bounds("orders")


def test_several_brokers_have_queues_of_their_own() -> None:
    with running_broker(topics={"orders": 2}, brokers=["broker-a", "broker-b"]) as broker:
        queues = [(queue.broker_name, queue.queue_id) for queue in broker.bounds("orders")]
    assert queues == [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]


def test_consumer_offsets_can_be_read(connect: Connect) -> None:
    with running_broker(topics={"orders": 2}) as broker:
        client = connect(broker.endpoints)
        queue = v2.MessageQueue(topic=v2.Resource(name="orders"), id=1)
        client.pull(queue, 0)
        client.update_offset("readers", queue, 7)
        offsets = broker.consumer_offsets("readers", "orders")
        assert {queue.queue_id: offset for queue, offset in offsets.items()} == {1: 7}


def test_only_a_manual_clock_is_advanced() -> None:
    with running_broker() as broker, pytest.raises(BadRequest, match="--clock manual"):
        broker.clock.advance(1)
    with running_broker(clock="manual") as broker:
        before_ms = broker.clock.now_ms()
        assert broker.clock.advance(500, seconds=1, minutes=2, hours=3) == before_ms + 10_921_500


def test_faults_are_injected_on_demand(connect: Connect) -> None:
    with running_broker(topics={"orders": 1}, clock="manual") as broker:
        client = connect(broker.endpoints)
        broker.faults.fail("QueryRoute", "TOO_MANY_REQUESTS", times=2, topic="orders")
        assert [client.code("QueryRoute", ROUTE) for _ in range(3)] == ["TOO_MANY_REQUESTS"] * 2 + ["OK"]
        broker.faults.disconnect("QueryRoute")
        with pytest.raises(grpc.RpcError, match="UNAVAILABLE"):
            client.call("QueryRoute", ROUTE)
        held = broker.faults.hold("QueryRoute")
        call = client.start("QueryRoute", ROUTE)
        wait_until(lambda: bool(broker.faults.kept(held)), "held")
        broker.faults.release(held)
        assert call.await_response().status.code == v2.Code.OK
        assert [(report.injected, report.struck) for report in broker.faults.reports()] == [(2, 2), (1, 1), (1, 1)]
        broker.faults.clear()
        assert broker.faults.reports() == []
        with pytest.raises(BadRequest, match="unknown RPC 'QueryRoutes'"):
            broker.faults.drop("QueryRoutes")


def test_a_delayed_call_waits_for_the_clock(connect: Connect) -> None:
    with running_broker(topics={"orders": 1}, clock="manual") as broker:
        delayed = broker.faults.delay("QueryRoute", 60_000)
        call = connect(broker.endpoints).start("QueryRoute", ROUTE)
        wait_until(lambda: bool(broker.faults.kept(delayed)), "delayed")
        broker.clock.advance(minutes=1)
        assert call.await_response().status.code == v2.Code.OK


def test_nothing_is_left_behind() -> None:
    before = set(threading.enumerate())
    with running_broker(topics={"orders": 2}) as broker:
        broker.send("orders", b"x")
    assert set(threading.enumerate()) == before
    with pytest.raises(grpc.FutureTimeoutError):
        grpc.channel_ready_future(grpc.insecure_channel(broker.endpoints)).result(timeout=0.2)


# --- the pytest plugin -----------------------------------------------------------------------------------------------

SOMEBODY_S_TESTS = """
import pytest
from rmqpull_broker.core.model import TopicType

pytestmark = pytest.mark.rocketmq({"orders": 3}, clock="manual")

def test_the_marker_has_the_settings_of_the_broker(rocketmq_broker):
    assert len(rocketmq_broker.bounds("orders")) == 3
    rocketmq_broker.send("orders", b"one")

def test_every_test_has_its_own(rocketmq_broker):
    assert rocketmq_broker.messages("orders") == []

@pytest.mark.rocketmq(topics={"payments": (1, TopicType.TRANSACTION)})
def test_the_nearest_marker_wins(rocketmq_broker):
    assert list(rocketmq_broker.look(lambda state: dict(state.topics))) == ["payments"]
    rocketmq_broker.clock.advance(hours=1)

@pytest.mark.rocketmq(remoting=True)
def test_the_remoting_protocol(rocketmq_broker):
    (address,) = rocketmq_broker.remoting_addresses
    assert address.startswith("127.0.0.1:")
"""


@pytest.mark.processes
def test_the_plugin_brings_a_fixture(tmp_path: Path) -> None:
    (tmp_path / "test_somebody.py").write_text(SOMEBODY_S_TESTS, encoding="utf-8")
    flags = ["-q", "--strict-markers", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *flags, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert "4 passed" in done.stdout, done.stdout
