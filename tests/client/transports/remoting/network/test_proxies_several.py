"""Several proxies behind one address: each connection leads to another one, and one may be gone or serve old routes."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa
import pytest

from processes.forwarder import Forwarder
from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.proxies import CONNECTIONS_MAX
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_proxy import UNSENT_MAX
from tests.harness.scripted_queues import QueueScript
from tests.harness.scripted_remoting import Reaction, ScriptedServer, make_route, refuse_code

QUEUES, MESSAGES = 4, 2_000
TIMEOUT_MS = 60_000


@dataclass
class TwoProxies:
    """Two scripted proxies of one broker, and the address that leads to them in turn.

    ``queues`` has the number of queues that each proxy tells. ``silent`` are those that do not respond.
    """

    broker: Callable[[RemotingCommand], Reaction]
    queues: list[int] = field(default_factory=lambda: [QUEUES, QUEUES])

    def __post_init__(self) -> None:
        self.proxies = [ScriptedServer(refuse_code) for _ in range(2)]
        self.address = ""

    def respond(self, number: int, request: RemotingCommand) -> Reaction:
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            route = make_route({"broker-a": {0: self.address}}, self.queues[number])
            return request.make_response(ResponseCode.SUCCESS, body=route.encode())
        return self.broker(request)

    def connect(self) -> RemotingClient:
        """Returns a client of a process that knows nothing yet. It asks for each route again."""
        return RemotingClient(
            RemotingChannel(
                Connection(
                    name_servers=self.address,
                    request_timeout_ms=TIMEOUT_MS,
                    request_retry_interval_ms=1,
                    poll_name_server_interval_ms=1,
                )
            )
        )

    def count(self, code: int) -> list[int]:
        return [proxy.count(code) for proxy in self.proxies]


@contextmanager
def serve_two(broker: Callable[[RemotingCommand], Reaction]) -> Iterator[TwoProxies]:
    two = TwoProxies(broker)
    with ExitStack() as stack:
        for number, proxy in enumerate(two.proxies):
            proxy.script = lambda request, number=number: two.respond(number, request)  # type: ignore[misc]
            proxy.unsent_max = UNSENT_MAX
            stack.enter_context(proxy)
        two.address = stack.enter_context(Forwarder([proxy.address for proxy in two.proxies])).address
        yield two


def read(client: RemotingClient) -> Counter[int]:
    """Returns how often each offset was read."""
    found: Counter[int] = Counter()
    ranges = [QueueRange(MessageQueue("orders", "broker-a", number), 0, MESSAGES) for number in range(QUEUES)]
    for step in client.read("readers", ranges, ["queueOffset"]):
        for batch in (batch for entry in step for batch in entry.batches):
            found.update(batch["queueOffset"].to_pylist())
    return found


def test_a_read_uses_both() -> None:
    with serve_two(QueueScript(max_offset=MESSAGES)) as two:
        client = two.connect()
        assert read(client) == dict.fromkeys(range(MESSAGES), QUEUES)
        assert all(two.count(RequestCode.PULL_MESSAGE))
        assert sum(proxy.connections for proxy in two.proxies) <= CONNECTIONS_MAX + 1
        client.close()


@pytest.mark.parametrize("gone", [0, 1])
def test_a_client_that_begins_while_one_is_gone_knows_that_they_are_proxies(gone: int) -> None:
    """Otherwise the one that is left would drop responses."""
    with serve_two(QueueScript(max_offset=MESSAGES)) as two:
        two.proxies[gone].stop()
        client = two.connect()
        assert read(client) == dict.fromkeys(range(MESSAGES), QUEUES)
        assert client._channel.cluster.is_proxied
        assert sum(proxy.dropped for proxy in two.proxies) == 0
        client.close()


def test_what_is_in_flight_at_one_that_is_killed_is_asked_again_at_the_other() -> None:
    with serve_two(script := QueueScript(max_offset=MESSAGES)) as two:

        def kill(request: RemotingCommand, number: int) -> Reaction | None:
            if number == 100:
                two.proxies[0].stop()  # what it has responded to, and what it has not
            return None

        script.disturb = kill
        client = two.connect()
        assert read(client) == dict.fromkeys(range(MESSAGES), QUEUES)
        assert len(client.query_bounds(["orders"])["orders"].queues) == QUEUES
        client.close()


def test_a_wait_goes_on_at_the_other_one() -> None:
    """200 pulls take four connections, every second of which leads to the one that is gone."""
    queues = {MessageQueue("orders", "broker-a", number): 100 for number in range(200)}
    script = QueueScript(max_offset=100)
    with serve_two(script) as two:
        client = two.connect()
        told: list[bool] = []
        wait = threading.Thread(
            target=lambda: told.append(client.wait_for_messages("readers", queues, TIMEOUT_MS)), daemon=True
        )
        wait.start()

        def list_parked() -> dict[str, RemotingCommand]:
            """Returns the pulls at the second proxy, by queue."""
            requests = list(two.proxies[1].requests)
            pulls = [request for request in requests if request.code == RequestCode.PULL_MESSAGE]
            return {pull.fields["queueId"]: pull for pull in pulls}

        while sum(two.count(RequestCode.PULL_MESSAGE)) < len(queues) and wait.is_alive():
            wait.join(0.01)
        assert 0 < len(list_parked()) < len(queues)
        two.proxies[0].stop()
        while len(list_parked()) < len(queues) and wait.is_alive():
            wait.join(0.01)
        assert told == []
        script.max_offset = 101
        two.proxies[1].push(script.respond(list_parked()["7"], ResponseCode.SUCCESS, "FOUND", 101))
        wait.join(30)
        assert told == [True]
        client.close()


def test_rows_in_flight_at_one_that_is_killed_are_sent_again() -> None:
    """Those that the broker has stored without a response are there twice, as when a broker is killed."""
    stored: Counter[bytes] = Counter()
    lost: set[bytes] = set()
    lock = threading.Lock()

    def store(request: RemotingCommand) -> Reaction:
        if request.code != RequestCode.SEND_MESSAGE_V2:
            return request.make_response(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
        with lock:
            stored[bytes(request.body)] += 1
            if stored.total() == 50:
                lost.add(bytes(request.body))
                two.proxies[0].stop()
                two.proxies[1].close_connections()
        fields = {"msgId": "0", "queueId": request.fields["e"], "queueOffset": "0"}
        return request.make_response(ResponseCode.SUCCESS, fields)

    bodies = [b"%d" % number for number in range(200)]
    # Messages with a time are sent one by one.
    times = pa.array([4_000_000_000_000_000] * len(bodies), pa.timestamp("us", "UTC"))
    with serve_two(store) as two:
        client = two.connect()
        client.publish("orders", pa.record_batch({"body": bodies, "deliveryTimestamp": times}))
        assert stored.keys() == set(bodies)
        assert lost <= {body for body, count in stored.items() if count == 2}
        client.close()


def test_a_proxy_with_an_old_route_takes_no_queues_away() -> None:
    with serve_two(QueueScript()) as two:
        two.queues = [QUEUES, 2 * QUEUES]
        client = two.connect()
        counts = []
        for _ in range(6):
            counts.append(len(client.query_bounds(["orders"])["orders"].queues))
            client.close()  # the next question goes over a new connection
        assert counts == sorted(counts)
        assert counts[-1] == 2 * QUEUES
        assert all(two.count(RequestCode.GET_ROUTEINFO_BY_TOPIC))
