"""Several endpoints of one cluster: a request is sent to the next one if the first does not respond."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.connection import Connection, Tls
from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.endpoints import Endpoints
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING

NOBODY, NOBODY_ELSE = "127.0.0.1:1", "127.0.0.1:2"  # ports that no broker gets
ROUTE, PULL = MESSAGING.methods["QueryRoute"], MESSAGING.methods["PullMessage"]
LONG_MS = 60_000

Ask = Callable[[BrokerChannel], Any]


def by_call(channel: BrokerChannel) -> Any:
    return channel.call(ROUTE, service.QueryRouteRequest(topic=v2.Resource(name="orders"))).status.message


def by_start(channel: BrokerChannel) -> Any:
    return channel.start(ROUTE, service.QueryRouteRequest(topic=v2.Resource(name="orders")))().status.message


def by_start_stream(channel: BrokerChannel) -> Any:
    queue = v2.MessageQueue(topic=v2.Resource(name="orders"), broker=v2.Broker(name="broker-a"))
    request = service.PullMessageRequest(group=v2.Resource(name="g"), message_queue=queue, batch_size=1)
    return channel.start_stream(PULL, request)()[0].status.message


in_every_way = pytest.mark.parametrize("ask", [by_call, by_start, by_start_stream])


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker({"orders": 1}) as running:
        yield running


@pytest.fixture
def hanging() -> Iterator[str]:
    """Accepts connections and never responds, like a host that hangs."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@in_every_way
def test_an_unavailable_endpoint_is_skipped(broker: RunningBroker, ask: Ask) -> None:
    with closing(BrokerChannel(Connection(f"{NOBODY};{broker.endpoints}", LONG_MS, request_retries=0))) as channel:
        assert ask(channel) == ask(channel)


@in_every_way
def test_a_hanging_endpoint_is_skipped_within_the_request_timeout(
    broker: RunningBroker, hanging: str, ask: Ask
) -> None:
    with closing(BrokerChannel(Connection(f"{hanging};{broker.endpoints}", 2_000, request_retries=0))) as channel:
        ask(channel)


def test_the_endpoint_that_responded_gets_the_next_request(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    with closing(BrokerChannel(Connection(f"{NOBODY};{broker.endpoints};{NOBODY_ELSE}", LONG_MS))) as channel:
        send = Endpoints.send

        def record(endpoints: Endpoints, address: str, *rest: Any) -> Any:
            asked.append(address)
            return send(endpoints, address, *rest)

        monkeypatch.setattr(Endpoints, "send", record)
        by_call(channel)
        by_call(channel)
    assert asked == [NOBODY, broker.endpoints, broker.endpoints]


@in_every_way
def test_an_endpoint_that_becomes_unavailable_is_skipped(broker: RunningBroker, ask: Ask) -> None:
    with running_broker({"orders": 1}) as first:
        channel = BrokerChannel(Connection(f"{first.endpoints};{broker.endpoints}", LONG_MS, request_retries=0))
        ask(channel)
    with closing(channel):
        ask(channel)


def test_a_call_in_flight_at_an_unavailable_endpoint_is_retried_at_the_next(broker: RunningBroker) -> None:
    request = service.QueryRouteRequest(topic=v2.Resource(name="orders"))
    with closing(BrokerChannel(Connection(f"{NOBODY};{broker.endpoints}", LONG_MS, request_retries=0))) as channel:
        answers = [channel.start(ROUTE, request) for _ in range(3)]
        assert all(answer().message_queues for answer in answers)


@in_every_way
def test_the_error_has_every_endpoint_and_what_went_wrong_there(ask: Ask) -> None:
    with closing(BrokerChannel(Connection(f"{NOBODY};{NOBODY_ELSE}", 300))) as channel:
        text = r"No broker responded to \w+ at 127\.0\.0\.1:1;127\.0\.0\.1:2 within 300 ms \("
        with pytest.raises(BrokerUnavailable, match=text) as away:
            ask(channel)
    assert re.search(r"127\.0\.0\.1:1: .*Connection refused.*; 127\.0\.0\.1:2: .*Connection refused", str(away.value))


def test_while_one_endpoint_is_unavailable_a_failed_handshake_at_another_is_not_final(broker: RunningBroker) -> None:
    channel = BrokerChannel(Connection(f"{broker.endpoints};{NOBODY}", 300, tls=Tls()))
    with closing(channel), pytest.raises(BrokerUnavailable, match="within 300 ms") as away:
        by_call(channel)
    assert re.search(f"{broker.endpoints}: .*WRONG_VERSION_NUMBER.*{NOBODY}: .*Connection refused", str(away.value))


def test_connect_accepts_several_endpoints(broker: RunningBroker) -> None:
    with closing(connect(f"{NOBODY};{broker.endpoints}")) as client:
        assert list(client.query_bounds(["orders"])) == ["orders"]
        assert client.endpoints == f"{NOBODY};{broker.endpoints}"
