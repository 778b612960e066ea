"""Waits park a pull per queue, and keep those that are parked for the next wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import closing

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import RequestRefused
from rmqpull_client.flow import Flow
from rmqpull_client.model import EVERYTHING, MessageFilter, MessageQueue
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network import links
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.connections import BrokerConnection, wait_for
from rmqpull_client.transports.remoting.reading import waiting
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_queues import QueueScript, serve_queues
from tests.harness.scripted_remoting import Act, Reaction, RouteScript, ScriptedServer, make_route
from tests.harness.waiting import WAIT_S, wait_until

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]
AT_END = dict.fromkeys(QUEUES, 100)
LONG_MS = int(WAIT_S * 1000)


def pulls(server: ScriptedServer) -> list[RemotingCommand]:
    return [request for request in server.requests if request.code == RequestCode.PULL_MESSAGE]


def wait_for_pulls(server: ScriptedServer, count: int) -> list[RemotingCommand]:
    """Returns the pulls that a server got, as soon as there are as many: it may read them after a wait is over."""
    wait_until(lambda: len(pulls(server)) >= count, f"{count} pulls")
    return pulls(server)


def test_a_wait_parks_the_smallest_pull_of_each_queue() -> None:
    with serve_queues(QueueScript(), queues=4, flow=Flow(long_polling_timeout_ms=7_000)) as (client, [server]):
        assert not client.wait_for_messages("g", AT_END, 50)
        parked = wait_for_pulls(server, 4)
    assert sorted(int(pull.fields["queueId"]) for pull in parked) == [0, 1, 2, 3]
    expected = {"sysFlag": "6", "maxMsgNums": "1", "suspendTimeoutMillis": "7000", "queueOffset": "100"}
    expected["bname"] = "broker-a"
    assert all(expected.items() <= pull.fields.items() for pull in parked)


def test_pulls_stay_parked_for_the_next_wait() -> None:
    with serve_queues(QueueScript(), queues=4) as (client, [server]):
        for _ in range(5):
            assert not client.wait_for_messages("g", AT_END, 20)
            assert len(wait_for_pulls(server, 4)) == 4
        assert server.connections == 1


def test_a_queue_at_another_offset_is_parked_again() -> None:
    with serve_queues(QueueScript(), queues=4) as (client, [server]):
        client.wait_for_messages("g", AT_END, 20)
        assert client.wait_for_messages("g", AT_END | {QUEUES[2]: 99}, LONG_MS)
        assert len(wait_for_pulls(server, 5)) == 5


def test_a_message_ends_the_wait() -> None:
    broker = QueueScript()
    with serve_queues(broker, queues=4) as (client, [server]):
        sent: list[RemotingCommand] = []

        def park(request: RemotingCommand, number: int) -> Reaction | None:
            sent.append(request)
            return None

        broker.disturb = park
        found: list[bool] = []
        waits = threading.Thread(target=lambda: found.append(client.wait_for_messages("g", AT_END, LONG_MS)))
        waits.start()
        wait_until(lambda: len(sent) == 4, "parked")
        broker.max_offset = 101
        server.push(broker.pull(sent[1]))
        waits.join(WAIT_S)
    assert found == [True]


@pytest.mark.parametrize(
    ("respond", "expected"),
    [
        (lambda broker, pull: broker.respond(pull, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 100), False),
        (lambda broker, pull: broker.respond(pull, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", 7), False),
        (lambda broker, pull: pull.make_response(2, remark="system busy"), False),
        (lambda broker, pull: broker.respond(pull, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", 200), True),
        (lambda broker, pull: broker.respond(pull, ResponseCode.PULL_RETRY_IMMEDIATELY, "REMOVING", 100), True),
        (lambda broker, pull: pull.make_response(17, remark="topic[orders] not exist"), True),
        (lambda broker, pull: Act.CLOSE, True),
    ],
    ids=["time is up", "reset", "busy", "deleted", "removing", "no topic", "closed"],
)
def test_what_ends_a_wait(respond: Callable[[QueueScript, RemotingCommand], Reaction], expected: bool) -> None:
    broker = QueueScript()
    broker.disturb = lambda request, number: respond(broker, request) if number == 1 else Act.STALL
    with serve_queues(broker) as (client, _):
        assert client.wait_for_messages("g", {QUEUES[0]: 100}, LONG_MS if expected else 100) == expected


def test_messages_that_the_filter_drops_do_not_end_a_wait() -> None:
    broker = QueueScript(max_offset=200)

    def drop(request: RemotingCommand, number: int) -> Reaction | None:
        if number > 1:
            return Act.STALL
        return broker.respond(request, ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", 150)

    broker.disturb = drop
    with serve_queues(broker) as (client, [server]):
        for _ in range(2):
            assert not client.wait_for_messages("g", {QUEUES[0]: 100}, 50, MessageFilter("paid"))
        wait_until(
            lambda: (
                client.wait_for_messages("g", {QUEUES[0]: 100}, 50, MessageFilter("paid")) or len(pulls(server)) == 2
            ),
            "pulled behind what the filter has dropped",
        )
        assert [pull.fields["queueOffset"] for pull in pulls(server)] == ["100", "150"]


def test_a_refused_wait_is_an_error() -> None:
    broker = QueueScript(disturb=lambda request, number: request.make_response(16, remark="pulling is forbidden"))
    with serve_queues(broker) as (client, _), pytest.raises(RequestRefused, match="pulling is forbidden"):
        client.wait_for_messages("g", {QUEUES[0]: 100}, LONG_MS)


def test_a_broker_that_is_away_ends_a_wait() -> None:
    """The next query of the bounds says what is wrong."""
    with serve_queues(QueueScript(), connection=Connection(request_timeout_ms=1_000)) as (client, [server]):
        client.query_bounds(["orders"])
        server.stop()
        assert client.wait_for_messages("g", {QUEUES[0]: 100}, LONG_MS)


def test_a_slave_that_does_not_know_the_topic_ends_no_wait() -> None:
    """Only its master decides. Without a pause the query would plan again and again."""
    unknown = QueueScript(disturb=lambda request, number: request.make_response(17, remark="topic[orders] not exist"))
    with ScriptedServer(unknown) as slave:
        routes = RouteScript({"orders": make_route({"broker-a": {1: slave.address}}, 1)})
        with ScriptedServer(routes) as name_server:
            client = RemotingClient(RemotingChannel(Connection(name_servers=name_server.address)), Flow())
            with closing(client):
                assert not client.wait_for_messages("g", {QUEUES[0]: 100}, 300)
        wait_until(lambda: len(pulls(slave)) == 1, "asked once")


def test_the_queues_and_the_groups_of_a_wait_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "PARKED_MAX", 3)
    monkeypatch.setattr(waiting, "KEPT_MAX", 2)
    with serve_queues(QueueScript(), queues=4) as (client, [server]):
        for group in ("one", "two", "three"):
            client.wait_for_messages(group, AT_END, 50)
        assert [group for group, _ in client._parked._kept] == ["one", "two"]
        wait_until(lambda: {pull.fields["consumerGroup"] for pull in pulls(server)} >= {"one", "two"}, "parked")
        client.wait_for_messages("one", AT_END, 50)
        assert sum(pull.fields["consumerGroup"] == "one" for pull in wait_for_pulls(server, 6)) == 3


def test_a_limited_wait_parks_the_same_queues_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others would add to the pulls that the broker keeps parked."""
    monkeypatch.setattr(waiting, "PARKED_MAX", 3)
    with serve_queues(QueueScript(), queues=4) as (client, [server]):
        for _ in range(3):
            client.wait_for_messages("g", AT_END, 50)
            client.wait_for_messages("g", dict(reversed(AT_END.items())), 50)
        assert sorted(int(pull.fields["queueId"]) for pull in wait_for_pulls(server, 3)) == [0, 1, 2]


def test_an_idle_query_sends_no_pulls_while_its_pulls_are_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time is the test's own: a minute of waits of 500 ms, half of it before pulls come back."""
    now_s = [1_000.0]

    def skip(connections: Iterable[BrokerConnection], timeout_s: float) -> list[BrokerConnection]:
        ready = wait_for(connections, 0)
        now_s[0] += 0 if ready else max(timeout_s, 0.001)
        return ready

    flow = Flow(long_polling_timeout_ms=30_000)
    with serve_queues(QueueScript(), queues=4) as (client, [server]):
        client.query_bounds(["orders"])  # so that no wait asks for the route, in the time of others
        monkeypatch.setattr(links, "wait_for", skip)
        parked = waiting.ParkedPulls(client._channel, flow, lambda: now_s[0])

        def wait_for_half_a_minute() -> None:
            for _ in range(60):
                assert not parked.wait("g", AT_END, 500, EVERYTHING)

        wait_for_half_a_minute()
        wait_until(lambda: len(pulls(server)) == 4, "each queue has its pull")
        first = pulls(server)
        broker = server.script
        assert isinstance(broker, QueueScript)
        for pull in first:
            server.push(broker.respond(pull, ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 100))
        wait_until(lambda: not parked.wait("g", AT_END, 500, EVERYTHING) and len(pulls(server)) == 8, "parked again")
        wait_for_half_a_minute()
        assert len(pulls(server)) == 8
        assert server.connections == 1
        parked.close()
