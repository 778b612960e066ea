"""The page of metrics: its content, and how it is served."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import OffsetsCommitted, Popped, RowsStored
from rmqpull_broker.server.addresses import PortUnavailable
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.observability import exposition
from rmqpull_broker.server.observability.exposition import Exposition
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import PullParker
from rmqpull_broker.server.runtime.pops import Pops
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.server import ServerHarness, run_on_server
from tests.harness.waiting import until


class Watched:
    """A broker's state with its metrics page, without the rest of a broker."""

    def __init__(self) -> None:
        self.state = BrokerState(ConsumeQueues(), ("broker-a",), BrokerProperties())
        self.metrics = Metrics()
        parker = PullParker(self.state.store, ManualClock())
        storage, clock = MemoryStorage(), ManualClock()
        pops = Pops(self.state, GroupCommit(self.state, storage, lambda facts: None), clock, metrics=self.metrics)
        self.exposition = Exposition(self.state, storage, self.metrics, parker, pops)

    def store(self, topic: str, count: int) -> None:
        message = Message(b"x", "m")
        rows = tuple(StoredMessage(message, offset, 0, "here") for offset in range(count))
        self.state.apply([RowsStored(MessageQueue(topic, "broker-a", 0), rows)])

    def commit(self, group: str, topic: str, offset: int) -> None:
        self.state.apply([OffsetsCommitted(group, ((MessageQueue(topic, "broker-a", 0), offset),))])

    def samples(self) -> dict[tuple[str, ...], float]:
        """The values of the page, by name and by the values of the labels in the order of their names."""
        page = asyncio.run(self.exposition.build_page()).decode()
        families = list(text_string_to_metric_families(page))
        assert all(family.documentation for family in families)
        return {
            (
                sample.name.removeprefix("rmqpull_broker_"),
                *(value for _, value in sorted(sample.labels.items())),
            ): sample.value
            for family in families
            for sample in family.samples
        }


def test_counters_are_shown_under_their_labels() -> None:
    watched = Watched()
    watched.metrics.messages_in["orders"] = 3
    watched.metrics.bytes_out["bills"] = 7
    watched.metrics.pulls["FOUND"] = 2
    watched.metrics.count_call("SendMessage", 20_000, 0.001)
    watched.metrics.count_call("SendMessage", "CANCELLED", 400)
    samples = watched.samples()
    assert samples["messages_in_total", "orders"] == 3
    assert samples["bytes_out_total", "bills"] == 7
    assert samples["pulls_total", "FOUND"] == 2
    assert samples["calls_total", "OK", "SendMessage"] == samples["calls_total", "CANCELLED", "SendMessage"] == 1


def test_histograms_are_cumulative() -> None:
    watched = Watched()
    for command_count in (1, 2, 20_000):
        watched.metrics.count_write(command_count, 0.001, None)
    watched.metrics.count_call("SendMessage", 20_000, 0.3)
    samples = watched.samples()
    buckets = [samples["sync_commands_bucket", bound] for bound in ("1.0", "2.0", "10000.0", "+Inf")]
    assert buckets == [1, 2, 2, 3]
    assert (samples["sync_commands_count",], samples["sync_commands_sum",]) == (3, 20_003)
    assert samples["call_seconds_bucket", "0.25", "SendMessage"] == 0
    assert samples["call_seconds_bucket", "0.5", "SendMessage"] == 1


def test_lag_is_the_distance_from_a_groups_offsets_to_the_max_offsets() -> None:
    watched = Watched()
    watched.store("orders", 10)
    watched.commit("near", "orders", 9)
    watched.commit("far", "orders", 2)
    watched.commit("beyond", "orders", 12)
    watched.commit("far", "unwritten", 0)
    lags = {key[1:]: value for key, value in watched.samples().items() if key[0] == "consumer_lag"}
    assert lags == {("near", "orders"): 1, ("far", "orders"): 8, ("beyond", "orders"): 0, ("far", "unwritten"): 0}


def test_above_the_limit_only_the_largest_lags_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "LAG_SERIES_MAX", 1)
    watched = Watched()
    watched.store("orders", 10)
    for group, offset in (("near", 9), ("far", 2)):
        watched.commit(group, "orders", offset)
    assert [key[1:] for key in watched.samples() if key[0] == "consumer_lag"] == [("far", "orders")]


def test_messages_in_flight_and_their_fates_are_shown_by_group_and_topic() -> None:
    watched = Watched()
    watched.store("orders", 3)
    watched.state.apply([Popped("readers", MessageQueue("orders", "broker-a", 0), range(2), 1_000, 60_000)])
    fates = watched.metrics
    for number, counter in enumerate((fates.delivered, fates.redelivered, fates.acknowledged, fates.dead_lettered)):
        counter["readers", "orders"] = number + 3
    samples = watched.samples()
    names = ("in_flight", "delivered_total", "redelivered_total", "acknowledged_total", "dead_lettered_total")
    assert [samples[f"messages_{name}", "readers", "orders"] for name in names] == [2, 3, 4, 5, 6]


def test_a_thread_makes_the_page_from_the_numbers_of_one_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the series of many topics keep no call waiting."""
    watched, threads = Watched(), set[str]()
    watched.metrics.messages_in["orders"] = 1

    def count(metrics: Metrics) -> Iterator[Metric]:
        threads.add(threading.current_thread().name)
        watched.metrics.messages_in["orders"] += 1
        return count_metrics(metrics)

    count_metrics = exposition._count
    monkeypatch.setattr(exposition, "_count", count)
    assert watched.samples()["messages_in_total", "orders"] == 1
    assert watched.samples()["messages_in_total", "orders"] == 2
    assert threading.current_thread().name not in threads


def test_one_page_is_made_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    watched, running, most = Watched(), list[int](), list[int]()

    def count(metrics: Metrics) -> Iterator[Metric]:
        running.append(1)
        threading.Event().wait(0.01)  # time for others, if there are any
        most.append(len(running))
        yield from count_metrics(metrics)
        running.pop()

    async def build() -> None:
        await asyncio.gather(*(watched.exposition.build_page() for _ in range(8)))

    count_metrics = exposition._count
    monkeypatch.setattr(exposition, "_count", count)
    asyncio.run(build())
    assert most == [1] * 8


def test_gauges_follow_the_broker() -> None:
    async def story(server: ServerHarness) -> None:
        page = (await get(server, "/metrics")).decode()
        topics = len(server.app.state.topics)
        for line in (
            "parked_pulls 0.0",
            "waiting_receives 0.0",
            "groups 0.0",
            f"topics {topics}.0",
            "commit_log_bytes ",
        ):
            assert f"\nrmqpull_broker_{line}" in page
        assert "\nprocess_resident_memory_bytes " in page

    run_on_server(story)


async def open_stream(port: int, request: bytes) -> bytes:
    """The response to a request; nothing when the connection is closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def get(server: ServerHarness, path: str) -> bytes:
    port = await server.app.expose_metrics("127.0.0.1", 0)
    return await open_stream(port, f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


@pytest.mark.parametrize(
    ("request_", "status", "with_body"),
    [
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", b"200 OK", True),
        (b"GET /metrics?name[]=up HTTP/1.1\r\n\r\n", b"200 OK", True),
        (b"GET / HTTP/1.0\r\n\r\n", b"200 OK", True),
        (b"HEAD /metrics HTTP/1.1\r\n\r\n", b"200 OK", False),
        (b"POST /metrics HTTP/1.1\r\n\r\n", b"405 Method Not Allowed", True),
        (b"GET /admin HTTP/1.1\r\n\r\n", b"404 Not Found", True),
        (b"\r\n\r\n", b"404 Not Found", True),
    ],
)
def test_the_page_is_served_over_http(request_: bytes, status: bytes, with_body: bool) -> None:
    async def story(server: ServerHarness) -> None:
        port = await server.app.expose_metrics("127.0.0.1", 0)
        head, _, body = (await open_stream(port, request_)).partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 " + status + b"\r\n")
        assert bool(body) is with_body
        if with_body:
            assert f"Content-Length: {len(body)}".encode() in head

    run_on_server(story)


def test_a_request_that_is_too_long_is_refused() -> None:
    async def story(server: ServerHarness) -> None:
        port = await server.app.expose_metrics("127.0.0.1", 0)
        assert await open_stream(port, b"GET /" + b"x" * 2 * exposition.REQUEST_BYTES_MAX) == b""

    run_on_server(story)


def test_connections_above_the_limit_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exposition, "CONNECTIONS_MAX", 0)

    async def story(server: ServerHarness) -> None:
        assert await get(server, "/metrics") == b""

    run_on_server(story)


def test_an_address_in_use_is_named() -> None:
    async def story(server: ServerHarness) -> None:
        port = await server.app.expose_metrics("127.0.0.1", 0)
        with pytest.raises(PortUnavailable, match=f"127.0.0.1:{port} for metrics: Address already in use"):
            await server.app.expose_metrics("127.0.0.1", port)

    run_on_server(story)


def test_a_client_that_does_not_read_its_page_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    page = bytes(50_000_000)

    async def respond(self: Exposition, head: bytes) -> bytes:
        return page

    async def story(server: ServerHarness) -> None:
        port = await server.app.expose_metrics("127.0.0.1", 0)
        before = asyncio.all_tasks()
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            await until(lambda: bool(asyncio.all_tasks() - before), "asked")
            await until(lambda: asyncio.all_tasks() == before, "closed")
            assert await asyncio.to_thread(count_bytes, client) < len(page)

    monkeypatch.setattr(exposition, "REQUEST_TIMEOUT_S", 0.05)
    monkeypatch.setattr(Exposition, "_response", respond)
    run_on_server(story)


def count_bytes(client: socket.socket) -> int:
    """Reads until the end of a connection, or until it is reset."""
    count = 0
    with contextlib.suppress(ConnectionResetError):
        while part := client.recv(1 << 20):
            count += len(part)
    return count
