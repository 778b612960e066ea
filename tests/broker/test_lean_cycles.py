"""Searches for cycles look at each object once, so what the broker keeps for long must not end in a cycle."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import pytest

from rmqpull_broker.lean import SEARCH_THRESHOLDS, keep_cycle_searches_short
from rmqpull_broker.server.remoting.acceptor import Acceptor
from rmqpull_broker.server.remoting.calls import Site
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.remoting.turns import Turns
from rmqpull_broker.server.remoting.wire.queue_bodies import LockRequest, QueueOfBroker
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.heartbeats import GroupMembership, HeartbeatData, Subscription
from tests.harness.remoting_member import RemotingMember
from tests.harness.rpc_client import Connect
from tests.harness.secured_proxy import CertificateAuthority
from tests.harness.server import ServerHarness, run_on_server
from tests.harness.waiting import wait_until

QUEUES = 4


@pytest.fixture
def no_search() -> Iterator[None]:
    """No search runs within the test but its own, and the process is afterwards as before."""
    thresholds, callbacks = gc.get_threshold(), list(gc.callbacks)
    gc.collect()
    gc.disable()
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*thresholds)
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("no_search")
def test_a_complete_search_looks_at_each_object_once() -> None:
    keep_cycle_searches_short()
    gc.collect()
    kept = [[number] for number in range(1_000)]
    assert len(gc.get_objects(2)) == 0
    gc.collect(1)
    assert len(gc.get_objects(2)) >= len(kept)  # the next complete search looks at them
    gc.collect()
    assert len(gc.get_objects(2)) == 0  # and that after it does not


@pytest.mark.usefixtures("no_search")
def test_a_complete_search_is_due_after_some_thousand_objects() -> None:
    keep_cycle_searches_short()
    assert gc.get_threshold() == SEARCH_THRESHOLDS
    young, second, third = SEARCH_THRESHOLDS
    assert (young + 1) * (second + 1) * (third + 1) < 100_000


# --- connections ------------------------------------------------------------------------------------------------------


class _Open:
    """What a connection needs of the others."""

    dispatcher = None

    def __init__(self) -> None:
        self.turns = Turns()
        self.made: list[weakref.ref[RemotingConnection]] = []

    def add(self, connection: RemotingConnection) -> str:
        self.made.append(weakref.ref(connection))
        return "channel"

    def remove(self, connection: RemotingConnection) -> None: ...

    def passing_ms(self) -> int:
        return 0

    def note_unfinished(self, connection: RemotingConnection, held_bytes: int) -> None: ...


def _list_transports(others: Sequence[Any]) -> list[Any]:
    """Returns the transports of this process but those of ``others``, which earlier tests have left."""
    known = set(map(id, others))
    return [each for each in gc.get_objects() if isinstance(each, asyncio.Transport) and id(each) not in known]


async def _connect_and_leave(server_tls: ssl.SSLContext | None, client_tls: ssl.SSLContext | None) -> _Open:
    others = _list_transports(())
    bound = socket.create_server(("127.0.0.1", 0))
    bound.setblocking(False)
    connections, site = _Open(), Site("broker-a", "127.0.0.1", 9876, "127.0.0.1")
    accepting = Acceptor(bound, lambda: RemotingConnection(cast("Any", connections), site), server_tls)
    accepting.start()

    def talk() -> None:
        plain = socket.create_connection(bound.getsockname(), 10)
        with plain if client_tls is None else client_tls.wrap_socket(plain, server_hostname="localhost") as opened:
            opened.sendall(b"no frame of the remoting protocol")
            while opened.recv(100):
                pass

    await asyncio.to_thread(talk)
    for _ in range(1_000):
        if connections.made[0]() is None and not _list_transports(others):
            break
        await asyncio.sleep(0.001)
    accepting.close()
    assert not _list_transports(others)
    return connections


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "TLS"])
def test_a_closed_connection_is_freed_without_a_search(with_tls: bool, authority: CertificateAuthority) -> None:
    server_tls = client_tls = None
    if with_tls:
        server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server_tls.load_cert_chain(*authority.issue("localhost"))
        client_tls = ssl.create_default_context(cafile=str(authority.ca_file))
    connections = asyncio.run(_connect_and_leave(server_tls, client_tls))
    assert [made() for made in connections.made] == [None]


HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a handshake of TLS."""


async def _fail_handshakes(server_tls: ssl.SSLContext, first: bytes, *, gives_up: bool) -> int:
    """Begins handshakes that the client leaves, or that the acceptor gives up. Returns how many transports are left."""
    others = _list_transports(())
    bound = socket.create_server(("127.0.0.1", 0))
    bound.setblocking(False)
    site = Site("broker-a", "127.0.0.1", 9876, "127.0.0.1")
    accepting = Acceptor(bound, lambda: RemotingConnection(cast("Any", _Open()), site), server_tls)
    accepting.start()
    opened = [socket.create_connection(bound.getsockname(), 10) for _ in range(5)]
    for one in opened:
        one.sendall(first)
    await _wait_until(lambda: len(_list_transports(others)) > 0)
    if gives_up:
        accepting.close()
    for one in opened:
        one.close()
    await _wait_until(lambda: not accepting._tasks and not _list_transports(others))
    accepting.close()
    return len(_list_transports(others))


async def _wait_until(happened: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if happened():
            return
        await asyncio.sleep(0.001)


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("gives_up", [False, True])
def test_a_failed_handshake_is_freed_without_a_search(gives_up: bool, authority: CertificateAuthority) -> None:
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_tls.load_cert_chain(*authority.issue("localhost"))
    assert asyncio.run(_fail_handshakes(server_tls, HELLO, gives_up=gives_up)) == 0


@pytest.mark.usefixtures("no_search")
@pytest.mark.parametrize("request_", [b"GET /metrics HTTP/1.1\r\n\r\n", b"GET /metr"])
def test_a_request_for_metrics_is_freed_without_a_search(request_: bytes) -> None:
    async def story(server: ServerHarness) -> None:
        port = await server.app.expose_metrics("127.0.0.1", 0)
        others = _list_transports(())

        def ask() -> None:
            with socket.create_connection(("127.0.0.1", port), 10) as opened:
                opened.sendall(request_)
                opened.shutdown(socket.SHUT_WR)
                while opened.recv(100_000):
                    pass

        await asyncio.to_thread(ask)
        await _wait_until(lambda: not _list_transports(others))
        assert not _list_transports(others)

    run_on_server(story)


# --- a whole broker ---------------------------------------------------------------------------------------------------


def consume_by_remoting(broker: RunningBroker) -> Callable[[], None]:
    """A member of a group locks queues and parks pulls. Returns what ends it."""
    member = RemotingMember(broker.remoting_addresses[0])
    subscribed = (GroupMembership("readers", subscriptions=(Subscription("orders", "*"),)),)
    member.call(RequestCode.HEART_BEAT, body=HeartbeatData("tester", subscribed, ("writers",)).encode())
    queues = tuple(QueueOfBroker("orders", "broker-a", queue_id) for queue_id in range(QUEUES))
    member.call(RequestCode.LOCK_BATCH_MQ, body=LockRequest("readers", "tester", queues).encode())
    for queue in queues:
        fields = {"consumerGroup": "readers", "topic": "orders", "queueId": queue.queue_id, "queueOffset": 0}
        limits = {"maxMsgNums": 32, "sysFlag": 2, "commitOffset": 0, "suspendTimeoutMillis": 15_000, "subVersion": 0}
        member.start(RequestCode.PULL_MESSAGE, {**fields, **limits})
    assert member.call(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "readers"}).code == 0
    return member.close


def consume_by_grpc(broker: RunningBroker, connect: Connect) -> Callable[[], None]:
    """A consumer sends its settings and waits for messages. Returns what ends it."""
    client = connect(broker.endpoints)
    stream = client.open_stream("Telemetry")
    settings = v2.Settings(client_type=v2.ClientType.SIMPLE_CONSUMER)
    settings.subscription.group.name = "receivers"
    settings.subscription.subscriptions.add().topic.name = "orders"
    stream.send(messaging.TelemetryCommand(settings=settings))
    stream.receive()
    request = messaging.ReceiveMessageRequest(group=v2.Resource(name="receivers"), batch_size=32)
    request.message_queue.topic.name = "orders"
    request.invisible_duration.FromSeconds(60)
    request.long_polling_timeout.FromSeconds(15)
    waiting = client.start("ReceiveMessage", request)
    client.call("QueryRoute", messaging.QueryRouteRequest(topic=v2.Resource(name="orders")))

    def end() -> None:
        waiting.cancel()
        stream.cancel()

    return end


def _find_garbage() -> Counter[str]:
    """Searches once. Returns the kinds of the broker's objects that only the search could free."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        kinds = Counter(f"{type(each).__module__}.{type(each).__qualname__}" for each in gc.garbage)
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
    return Counter({kind: count for kind, count in kinds.items() if kind.startswith(("rmqpull_broker", "asyncio"))})


@pytest.mark.usefixtures("no_search")
def test_clients_that_leave_are_freed_without_a_search(connect: Connect) -> None:
    with running_broker({"orders": QUEUES}, remoting=True) as broker:
        ends = [consume_by_remoting(broker), consume_by_grpc(broker, connect)]
        _find_garbage()
        for end in ends:
            end()
        with RemotingMember(broker.remoting_addresses[0]) as other:
            fields = {"consumerGroup": "readers"}
            code = RequestCode.GET_CONSUMER_LIST_BY_GROUP
            wait_until(lambda: b"tester" not in bytes(other.call(code, fields).body), "gone")
            assert _find_garbage() == {}
