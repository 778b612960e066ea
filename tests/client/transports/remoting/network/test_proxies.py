"""A proxy drops responses that pile up on a connection, so a client never has more in flight than fits."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace

import pyarrow as pa
import pytest

from rmqpull_client.errors import HandshakeFailed, RequestRefused
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network.proxies import (
    CONNECTIONS_MAX,
    ROOM_BYTES,
    count_pulls,
    count_response_bytes,
)
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_proxy import UNSENT_MAX, serve_proxy
from tests.harness.scripted_queues import QueueScript, serve_queues
from tests.harness.scripted_remoting import Act, Reaction, ScriptedServer, refuse_code

QUEUES = 4
MESSAGES = 2_000


def list_ranges(until: int = MESSAGES) -> list[QueueRange]:
    return [QueueRange(MessageQueue("orders", "broker-a", number), 0, until) for number in range(QUEUES)]


def read(client: RemotingClient) -> Counter[int]:
    """Returns how often each offset was read."""
    found: Counter[int] = Counter()
    for step in client.read("readers", list_ranges(), ["queueOffset"]):
        for batch in (batch for entry in step for batch in entry.batches):
            found.update(batch["queueOffset"].to_pylist())
    return found


def test_all_messages_are_read() -> None:
    with serve_proxy(QueueScript(max_offset=MESSAGES)) as (client, proxy):
        assert read(client) == dict.fromkeys(range(MESSAGES), QUEUES)
        assert (proxy.dropped, client._channel.cluster.is_proxied) == (0, True)
        assert proxy.connections <= CONNECTIONS_MAX + 1  # and one for the route


def test_a_client_that_does_not_know_the_proxy_misses_responses() -> None:
    """Otherwise these tests would show nothing."""
    with serve_proxy(QueueScript(max_offset=MESSAGES), timeout_ms=1_000) as (client, proxy):
        client._channel.cluster.is_proxied = False
        with pytest.raises(Exception, match="did not respond to PULL_MESSAGE"):
            read(client)
        assert proxy.dropped > 0


def test_the_bounds_of_many_queues_are_found() -> None:
    with serve_proxy(QueueScript(max_offset=MESSAGES), queues=1_000) as (client, proxy):
        proxy.unsent_max = ROOM_BYTES
        assert len(client.query_bounds(["orders"])["orders"].queues) == 1_000
        assert proxy.dropped == 0


def test_the_routes_of_many_topics_are_found() -> None:
    topics = tuple(f"topic-{number}" for number in range(100))
    with serve_proxy(QueueScript(), topics=topics, queues=1) as (client, proxy):
        proxy.unsent_max = ROOM_BYTES // 8  # these routes have an eighth of the bytes that a route may have
        assert client.query_bounds(topics).keys() == set(topics)
        assert proxy.dropped == 0


def test_messages_are_looked_at() -> None:
    queues = {MessageQueue("orders", "broker-a", number): 7 for number in range(100)}
    with serve_proxy(QueueScript(), queues=100) as (client, proxy):
        client._channel.routes.get_route("orders")
        proxy.unsent_max = 0
        found = client.look_at("readers", queues)
        assert all(witness is not None and witness.offset == 7 for witness in found.values())
        assert (len(found), proxy.dropped) == (100, 0)


def test_single_rows_are_written_once() -> None:
    stored: list[int] = []

    def store(request: RemotingCommand) -> Reaction:
        if request.code != RequestCode.SEND_MESSAGE_V2:
            return request.make_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        stored.append(int(request.body))
        padding = "0" * (count_response_bytes(request.code) - 200)
        fields = {"msgId": padding, "queueId": request.fields["e"], "queueOffset": str(len(stored))}
        return request.make_response(ResponseCode.SUCCESS, fields)

    # Messages with a time are sent one by one.
    bodies = [b"%d" % number for number in range(1_000)]
    times = pa.array([4_000_000_000_000_000] * 1_000, pa.timestamp("us", "UTC"))
    rows = pa.record_batch({"body": bodies, "deliveryTimestamp": times})
    with serve_proxy(store) as (client, proxy):
        for start in range(0, 1_000, 250):
            client.publish("orders", rows.slice(start, 250))
        assert (Counter(stored), proxy.dropped) == (Counter(range(1_000)), 0)


def test_a_server_that_tells_its_brokers_is_no_proxy() -> None:
    with serve_queues(QueueScript(max_offset=MESSAGES), queues=QUEUES) as (client, [server]):
        assert read(client) == dict.fromkeys(range(MESSAGES), QUEUES)
        assert (server.connections, client._channel.cluster.is_proxied) == (1, False)


def test_a_request_that_a_proxy_does_not_serve_is_refused_with_its_name() -> None:
    text = r"proxy for broker broker-a at .* GET_M.._OFFSET .*Apache's proxy does not serve this request"
    with serve_proxy(refuse_code) as (client, _), pytest.raises(RequestRefused, match=text):
        client.query_bounds(["orders"])


def test_a_proxy_in_local_mode_is_refused_with_what_to_do() -> None:
    """It names its gRPC port, which greets with HTTP/2, as the address of its broker."""
    text = r"gRPC \(HTTP/2\)\. A proxy gave this address: in local mode .*brokerAddresses .*broker-a=HOST:10911"
    settings = bytes.fromhex("00001e040000000000") + bytes(30)
    with (
        ScriptedServer(refuse_code, greeting=settings) as grpc,
        serve_proxy(refuse_code, named=grpc.address) as (client, _),
        pytest.raises(HandshakeFailed, match=text),
    ):
        client.query_bounds(["orders"])


def test_what_is_in_flight_on_a_connection_fits_below_the_mark() -> None:
    assert ROOM_BYTES < UNSENT_MAX
    assert all(count_response_bytes(code) <= ROOM_BYTES for code in RequestCode)


@pytest.mark.parametrize(("rows", "at_once"), [(10, 80), (300, 4), (2_500, 1)])
def test_the_response_to_a_batch_names_all_of_its_messages(rows: int, at_once: int) -> None:
    """With 33 bytes for each of them. A response of more than the whole room goes alone."""
    bodies: list[int] = []

    def store(request: RemotingCommand) -> Reaction:
        if request.code != RequestCode.SEND_BATCH_MESSAGE:
            return request.make_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        bodies.append(len(request.body))
        fields = {"msgId": ",".join(["0" * 32] * rows), "queueId": request.fields["e"], "queueOffset": "0"}
        return request.make_response(ResponseCode.SUCCESS, fields)

    with serve_proxy(store, queues=1) as (client, _):
        client.publish("orders", pa.record_batch({"body": [b"x"] * rows}))
    counted = count_response_bytes(RequestCode.SEND_BATCH_MESSAGE, bodies[0])
    assert counted == ROOM_BYTES or counted > 33 * rows
    assert ROOM_BYTES // counted <= at_once


@pytest.mark.parametrize(
    ("largest_bytes", "pulls"), [(0, 1), (300, 16), (8_300, 5), (24 << 10, 2), (ROOM_BYTES + 1, 1), (256 << 10, 1)]
)
def test_as_many_pulls_are_in_flight_as_the_largest_response_leaves_room_for(largest_bytes: int, pulls: int) -> None:
    assert count_pulls(largest_bytes) == pulls


def test_messages_that_grow_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pull whose response was dropped, because those before were larger than any one seen, is repeated."""
    monkeypatch.setattr("rmqpull_client.transports.remoting.network.proxies.SILENCE_S", 0.2)
    script = QueueScript(max_offset=MESSAGES)

    def grow(request: RemotingCommand, number: int) -> Reaction | None:
        response = script.pull(request)
        assert isinstance(response, RemotingCommand)
        grown = (int(request.fields["queueOffset"]) // 500) * (20 << 10)
        return replace(response, remark="0" * grown)

    script.disturb = grow
    with serve_proxy(script) as (client, proxy):
        assert read(client) == dict.fromkeys(range(MESSAGES), QUEUES)
        assert proxy.dropped > 0


def wait_on(client: RemotingClient, offset: int) -> bool:
    queues = {MessageQueue("orders", "broker-a", number): offset for number in range(200)}
    return client.wait_for_messages("readers", queues, 30_000)


def test_pulls_of_many_queues_are_parked_on_several_connections() -> None:
    script = QueueScript(max_offset=100)
    with serve_proxy(script, queues=200) as (client, proxy):
        told: list[bool] = []
        waiting = threading.Thread(target=lambda: told.append(wait_on(client, 100)))
        waiting.start()
        while proxy.count(RequestCode.PULL_MESSAGE) < 200 and waiting.is_alive():
            waiting.join(0.01)
        assert proxy.connections == 4  # 64 pulls on each
        parked = [request for request in proxy.requests if request.code == RequestCode.PULL_MESSAGE]
        script.max_offset = 101
        proxy.push(script.respond(parked[0], ResponseCode.SUCCESS, "FOUND", 101))
        waiting.join(30)
        assert told == [True]


def test_a_proxy_that_falls_silent_is_asked_again_on_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request timeout of a minute has nothing to do with it."""
    monkeypatch.setattr("rmqpull_client.transports.remoting.network.proxies.SILENCE_S", 0.2)
    script = QueueScript(max_offset=MESSAGES)
    script.disturb = lambda request, number: Act.STALL if number % 50 == 7 else None
    silent_once: set[int] = set()

    def stall_once(request: RemotingCommand) -> Reaction:
        if request.code == RequestCode.GET_MAX_OFFSET and not silent_once:
            silent_once.add(request.opaque)
            return Act.STALL
        return script(request)

    with serve_proxy(stall_once) as (client, _):
        assert len(client.query_bounds(["orders"])["orders"].queues) == QUEUES
        assert silent_once
        assert read(client) == dict.fromkeys(range(MESSAGES), QUEUES)
