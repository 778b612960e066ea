"""What is logged about a call, and what must never be logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.grpc.call_shares import parse_peer
from rmqpull_broker.server.observability.logs import JsonFormatter
from rmqpull_broker.server.runtime.pops import RELEASED_AFTER_MS
from rmqpull_broker.testing import running_broker
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.parking_watch import ParkingWatch
from tests.harness.receiver import Receiver
from tests.harness.rpc_client import Connect, RpcClient
from tests.harness.waiting import wait_until

if TYPE_CHECKING:
    from rmqpull_broker.testing import RunningBroker

SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"))


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[object, ...]]:
    names = ("rpc", "client_id", "topic", "code")
    return [tuple(vars(line)[name] for name in names) for line in caplog.records if line.name.endswith("access")]


def test_every_call_is_in_the_access_log(client: RpcClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "rmqpull_broker"):
        client.pull(SINGLE, 0)
        client.call("QueryRoute", service.QueryRouteRequest(topic=v2.Resource(name="unknown")))
        client.send_bodies("single", b"a body that nobody else is to read", b"x")
        client.channel.close()
    assert logged(caplog) == [
        ("PullMessage", "tester", "single", "MESSAGE_NOT_FOUND"),
        ("QueryRoute", "tester", "unknown", "TOPIC_NOT_FOUND"),
        ("SendMessage", "tester", "single", "OK"),
    ]
    assert "nobody else" not in "".join(map(JsonFormatter().format, caplog.records))


def test_without_debug_nothing_is_logged_of_calls(client: RpcClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        client.send_bodies("single", b"x")
    assert not caplog.records


def test_a_caller_that_leaves_is_logged_as_cancelled(
    client: RpcClient, parking_watch: ParkingWatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "rmqpull_broker"):
        pull = client.start_pull(SINGLE, 0, wait_ms=60_000)
        parking_watch.await_parked()
        pull.cancel()
        parking_watch.await_left()
        client.pull(SINGLE, 0)
    assert ("PullMessage", "tester", "single", "CANCELLED") in logged(caplog)


def test_credentials_are_never_logged(broker: RunningBroker, caplog: pytest.LogCaptureFixture) -> None:
    method = rpc.MESSAGING.methods["QueryRoute"]
    credentials = (("authorization", "MQv2-HMAC-SHA1 Credential=hush"), ("x-mq-session-token", "hush"))
    with caplog.at_level(logging.DEBUG, "rmqpull_broker"), grpc.insecure_channel(broker.endpoints) as channel:
        call = channel.unary_unary(method.path, method.request.SerializeToString, method.response.FromString)
        call(service.QueryRouteRequest(topic=SINGLE.topic), timeout=60, metadata=credentials)
    assert logged(caplog) == [("QueryRoute", "", "single", "CLIENT_ID_REQUIRED")]
    assert "hush" not in "".join(map(JsonFormatter().format, caplog.records))


def test_an_unexpected_error_is_logged_with_its_call(
    connect: Connect, broker: RunningBroker, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("rmqpull_broker.server.grpc.handlers.v2.pulling.pull_messages", lambda *_: 1 // 0)
    assert connect(broker.endpoints, "unlucky").pull(SINGLE, 0).code == "INTERNAL_SERVER_ERROR"
    [line] = caplog.records
    assert (vars(line)["rpc"], vars(line)["client_id"], vars(line)["topic"]) == ("PullMessage", "unlucky", "single")
    assert line.exc_info


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:50123", "127.0.0.1:50123"),
        ("ipv6:%5B::1%5D:50123", "[::1]:50123"),
        ("ipv6:[::1]:5", "[::1]:5"),
    ],
)
def test_the_address_of_a_peer_is_parsed(peer: str, address: str) -> None:
    assert parse_peer(peer) == address


@pytest.mark.parametrize("leave", ["cancel", "close"])
def test_a_caller_that_leaves_in_the_middle_of_a_response_is_no_error(
    leave: str, caplog: pytest.LogCaptureFixture
) -> None:
    method = rpc.MESSAGING.methods["ReceiveMessage"]
    narrow = {"grpc.http2.bdp_probe": 0, "grpc.http2.lookahead_bytes": 65_536, "grpc.use_local_subchannel_pool": 1}
    with running_broker({"orders": 1}) as broker, Receiver(broker.endpoints) as receiver:
        broker.send("orders", *[bytes(100_000)] * 64)
        with grpc.insecure_channel(broker.endpoints, list(narrow.items())) as channel:
            call = channel.unary_stream(method.path, method.request.SerializeToString, method.response.FromString)
            responses: Any = call(receiver.make_request(32), timeout=60, metadata=(("x-mq-client-id", "readers@test"),))
            next(responses)
            for _ in range(100):  # each looks from the event loop, so the broker now waits until more can be written
                assert broker.look(lambda state: len(state.popped)) > 0
            if leave == "cancel":
                responses.cancel()
        # What it has not read is redelivered.
        wait_until(lambda: broker.look(any_comes_soon), "released")
    assert [line for line in caplog.records if line.levelno >= logging.WARNING] == []


def any_comes_soon(state: BrokerState) -> bool:
    flights = [flight for key in state.popped.list_queues() for flight in state.popped.list_in_flight(*key)]
    return any(flight.visible_ms - flight.pop_time_ms == RELEASED_AFTER_MS for flight in flights)
