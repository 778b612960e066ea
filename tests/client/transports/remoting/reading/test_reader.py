"""Pipelined pulls over sockets: whatever brokers do, each message is read once and in order, or reported as lost."""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerBusy, BrokerUnavailable, DataLoss, RequestRefused
from rmqpull_client.flow import Flow
from rmqpull_client.loss import Loss, refuse_loss
from rmqpull_client.model import EVERYTHING, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.remoting.client import RemotingClient
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.scripted_queues import TIMEOUT_MS, QueueScript, serve_queues
from tests.harness.scripted_remoting import Act, Reaction, RouteScript, ScriptedServer, make_route

PATIENT = Connection(request_timeout_ms=TIMEOUT_MS, request_retry_interval_ms=1)
QUICK = Connection(request_retry_interval_ms=1)
V4_9_0 = 393
SHORT = Connection(request_timeout_ms=1_000, request_retry_interval_ms=1)


def queue(number: int = 0, broker: str = "broker-a") -> MessageQueue:
    return MessageQueue("orders", broker, number)


def read(
    client: BrokerClient,
    *ranges: QueueRange,
    lost: list[Loss] | None = None,
    message_filter: MessageFilter = EVERYTHING,
) -> dict[MessageQueue, list[int]]:
    """Reads ranges, and returns the offsets of each queue in the order of their arrival."""
    found: dict[MessageQueue, list[int]] = {}
    on_loss = refuse_loss if lost is None else lost.append
    for step in client.read("g", ranges, ["queueOffset", "body"], message_filter=message_filter, on_loss=on_loss):
        for entry in step:
            for batch in entry.batches:
                offsets = batch.column("queueOffset").to_pylist()
                assert batch.column("body").to_pylist() == [b"%d" % offset for offset in offsets]
                found.setdefault(entry.queue, []).extend(offsets)
    return found


def bounds(losses: Sequence[Loss]) -> list[tuple[int, int]]:
    return [(loss.from_offset, loss.until_offset) for loss in losses]


@pytest.mark.parametrize("given_max", [1, 7, 32, 1_000])
def test_responses_of_any_size_are_read_once_and_in_order(given_max: int) -> None:
    brokers = [QueueScript(max_offset=3_000, given_max=given_max) for _ in range(2)]
    ranges = [QueueRange(queue(number, name), 5, 900) for number in range(3) for name in ("broker-a", "broker-b")]
    with serve_queues(*brokers, queues=3) as (client, _):
        assert read(client, *ranges) == {entry.queue: list(range(5, 900)) for entry in ranges}


def test_many_pulls_are_in_flight_on_one_connection() -> None:
    with serve_queues(QueueScript(max_offset=2_000)) as (client, [server]):
        assert read(client, QueueRange(queue(), 0, 2_000)) == {queue(): list(range(2_000))}
        assert server.connections == 1
        pulls = [request for request in server.requests if request.code == RequestCode.PULL_MESSAGE]
    assert len(pulls) == 2_000 // 32 + 1


def test_a_broker_that_closes_connections_is_asked_again() -> None:
    chance = random.Random(1)
    broker = QueueScript(max_offset=2_000, given_max=9)
    broker.disturb = lambda request, number: Act.CLOSE if chance.random() < 0.03 else None
    with serve_queues(broker) as (client, [server]):
        assert read(client, QueueRange(queue(), 0, 2_000)) == {queue(): list(range(2_000))}
        assert server.connections > 1


def test_a_connection_that_was_closed_while_the_consumer_was_busy_is_opened_again() -> None:
    with serve_queues(QueueScript(max_offset=40_000), connection=QUICK) as (client, [server]):
        steps = client.read("g", [QueueRange(queue(), 0, 40_000)], ["queueOffset"])
        count = 0
        for step in steps:
            count += sum(batch.num_rows for entry in step for batch in entry.batches)
            server.close_connections()
    assert count == 40_000


def test_a_broker_that_restarts_is_waited_for() -> None:
    with serve_queues(QueueScript(max_offset=40_000)) as (client, [server]):
        steps = client.read("g", [QueueRange(queue(), 0, 40_000)], ["queueOffset"])
        count = sum(batch.num_rows for entry in next(steps) for batch in entry.batches)
        server.stop()
        server.start()
        count += sum(batch.num_rows for step in steps for entry in step for batch in entry.batches)
    assert count == 40_000


def test_a_broker_that_is_away_ends_the_read() -> None:
    with serve_queues(QueueScript(), connection=SHORT) as (client, [server]):
        client.query_bounds(["orders"])
        server.stop()
        with pytest.raises(BrokerUnavailable, match="Broker broker-a did not respond to PULL_MESSAGE within 1000 ms"):
            read(client, QueueRange(queue(), 0, 100))


def test_a_broker_that_stalls_ends_the_read() -> None:
    broker = QueueScript(disturb=lambda request, number: Act.STALL)
    with serve_queues(broker, connection=SHORT) as (client, _), pytest.raises(BrokerUnavailable, match="no response"):
        read(client, QueueRange(queue(), 0, 100))


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.GO_AWAY])
def test_a_busy_broker_is_asked_again(code: ResponseCode) -> None:
    broker = QueueScript(max_offset=500)
    broker.disturb = lambda request, number: request.make_response(code, remark="busy") if number % 3 == 0 else None
    with serve_queues(broker) as (client, _):
        assert read(client, QueueRange(queue(), 0, 500)) == {queue(): list(range(500))}


def test_a_broker_that_stays_busy_ends_the_read() -> None:
    broker = QueueScript(disturb=lambda request, number: request.make_response(2, remark="too busy"))
    with serve_queues(broker, connection=SHORT) as (client, _), pytest.raises(BrokerBusy, match="too busy"):
        read(client, QueueRange(queue(), 0, 100))


def test_a_reset_is_logged_and_the_pull_repeated(caplog: pytest.LogCaptureFixture) -> None:
    broker = QueueScript()

    def reset(request: RemotingCommand, number: int) -> Reaction | None:
        return broker.respond(request, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", 7) if number == 2 else None

    broker.disturb = reset
    with serve_queues(broker) as (client, _), caplog.at_level(logging.WARNING):
        assert read(client, QueueRange(queue(), 0, 100)) == {queue(): list(range(100))}
    assert caplog.messages == [
        "Consumer group g was reset to offset 7 of queue orders/broker-a/0; the query continues at its own offset"
    ]


def test_a_refused_pull_ends_the_read() -> None:
    broker = QueueScript(disturb=lambda request, number: request.make_response(16, remark="pulling is forbidden"))
    with serve_queues(broker) as (client, _), pytest.raises(RequestRefused, match="pulling is forbidden"):
        read(client, QueueRange(queue(), 0, 100))


# --- losses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given_max", [3, 32])
def test_lost_messages_are_reported_and_the_others_are_read(given_max: int) -> None:
    broker = QueueScript(
        min_offset=300, max_offset=2_000, given_max=given_max, missing={500, 501, 777}, damaged={900, 1_200}
    )
    lost: list[Loss] = []
    with serve_queues(broker) as (client, _):
        found = read(client, QueueRange(queue(), 10, 2_100), lost=lost)
    gone = {500, 501, 777, 900, 1_200}
    assert found == {queue(): [offset for offset in range(300, 2_000) if offset not in gone]}
    reported = sorted(offset for first, until in bounds(lost) for offset in range(first, until))
    assert reported == sorted({*range(10, 300), *gone, *range(2_000, 2_100)})


def test_a_loss_ends_the_read_by_default() -> None:
    with (
        serve_queues(QueueScript(min_offset=30)) as (client, _),
        pytest.raises(
            DataLoss, match=r"messages of queue orders/broker-a/0 in \[0, 3\d\) are lost: the broker has \[30"
        ),
    ):
        read(client, QueueRange(queue(), 0, 100))


def test_a_damaged_message_is_named() -> None:
    with (
        serve_queues(QueueScript(damaged={40})) as (client, _),
        pytest.raises(DataLoss, match=r"The message at offset 40 of queue orders/broker-a/0 is damaged: its lengths"),
    ):
        read(client, QueueRange(queue(), 0, 100))


def test_gaps_of_a_compacted_topic_are_no_losses() -> None:
    def describe(request: RemotingCommand) -> Reaction | None:
        if request.code != RequestCode.GET_TOPIC_CONFIG:
            return None
        return request.make_response(0, body=b'{"attributes":{"cleanup.policy":"COMPACTION"}}')

    with serve_queues(QueueScript(missing={5, 6, 50}, others=describe)) as (client, _):
        assert len(read(client, QueueRange(queue(), 0, 100))[queue()]) == 97


def test_a_broker_of_4_x_is_not_asked_whether_its_topic_is_compacted() -> None:
    """4.9.0 does not respond to a request that it does not know."""

    def react(request: RemotingCommand) -> Reaction | None:
        if request.code == RequestCode.GET_MAX_OFFSET:
            return replace(request.make_response(0, {"offset": "100"}), version=V4_9_0)
        return Act.STALL if request.code == RequestCode.GET_TOPIC_CONFIG else None

    with (
        serve_queues(QueueScript(missing={5}, others=react)) as (client, _),
        pytest.raises(DataLoss),
    ):
        read(client, QueueRange(queue(), 0, 100))


def test_gaps_are_not_judged_while_the_broker_cannot_say_whether_its_topic_is_compacted() -> None:
    def refuse(request: RemotingCommand) -> Reaction | None:
        return request.make_response(2, remark="busy") if request.code == RequestCode.GET_TOPIC_CONFIG else None

    lost: list[Loss] = []
    with (
        serve_queues(QueueScript(missing={5}, others=refuse), connection=SHORT) as (client, _),
        pytest.raises(BrokerBusy),
    ):
        read(client, QueueRange(queue(), 0, 100), lost=lost)
    assert lost == []


def test_a_queue_that_does_not_exist_is_lost() -> None:
    broker = QueueScript(disturb=lambda request, number: request.make_response(29, remark="queueId[0] is illegal"))
    lost: list[Loss] = []
    with serve_queues(broker) as (client, _):
        assert read(client, QueueRange(queue(), 7, 5_000), lost=lost) == {}
    # The loss is reported in parts if not all responses have arrived when the first one is examined.
    (begin, *begins), (*ends, end) = zip(*bounds(lost), strict=True)
    assert (begin, end, begins) == (7, 5_000, ends), "each offset is told once, in order"


def test_a_topic_without_a_route_is_lost_if_its_broker_is_there() -> None:
    lost: list[Loss] = []
    deleted = [MessageQueue("deleted", "broker-a", number) for number in range(2)]
    with serve_queues(QueueScript()) as (client, _):
        found = read(client, *(QueueRange(each, 7, 500) for each in deleted), QueueRange(queue(), 0, 9), lost=lost)
    assert found == {queue(): list(range(9))}
    assert sorted(loss[:3] for loss in lost) == [(each, 7, 500) for each in deleted]


def test_a_topic_without_a_route_is_waited_for_if_its_broker_is_away() -> None:
    lost: list[Loss] = []
    away = MessageQueue("orders", "broker-z", 0)
    with (
        serve_queues(QueueScript(), connection=SHORT) as (client, _),
        pytest.raises(BrokerUnavailable, match="broker-z"),
    ):
        read(client, QueueRange(away, 0, 100), lost=lost)
    assert lost == []


def test_a_message_that_a_filter_keeps_is_read_once() -> None:
    broker = QueueScript(max_offset=3_000, given_max=5)
    with serve_queues(broker) as (client, _):
        found = read(client, QueueRange(queue(), 0, 3_000), message_filter=MessageFilter("paid"))
        assert found == {queue(): list(range(3_000))}
        assert read(client, QueueRange(queue(), 0, 99), message_filter=MessageFilter("other")) == {}


# --- masters and slaves -----------------------------------------------------------------------------------------------


def test_a_slave_serves_reads_while_its_master_is_away() -> None:
    with serve_queues(QueueScript(), slave=QueueScript()) as (client, [master, slave]):
        client.query_bounds(["orders"])
        master.stop()
        assert read(client, QueueRange(queue(), 0, 100)) == {queue(): list(range(100))}
        assert slave.count(RequestCode.PULL_MESSAGE)


def test_what_a_slave_lacks_is_read_from_the_master() -> None:
    with serve_queues(QueueScript(max_offset=500, given_max=9, suggests=1), slave=QueueScript(40, 300)) as (
        client,
        [_, slave],
    ):
        assert read(client, QueueRange(queue(), 0, 500)) == {queue(): list(range(500))}
        assert slave.count(RequestCode.PULL_MESSAGE)


def test_a_slave_alone_loses_nothing() -> None:
    with serve_queues(QueueScript(), slave=QueueScript(max_offset=50), connection=SHORT) as (client, [master, _]):
        client.query_bounds(["orders"])
        master.stop()
        with pytest.raises((BrokerUnavailable, BrokerBusy)):
            read(client, QueueRange(queue(), 0, 100))


def test_a_flow_of_one_mebibyte_reads_large_bodies() -> None:
    with serve_queues(QueueScript(max_offset=400), flow=Flow(pull_threshold_size_for_topic=1)) as (client, _):
        assert read(client, QueueRange(queue(), 0, 400)) == {queue(): list(range(400))}


def test_a_broker_that_came_back_after_the_route_was_asked_for_has_lost_nothing() -> None:
    script = QueueScript(max_offset=100)
    with ScriptedServer(script) as a, ScriptedServer(script) as b:
        routes = RouteScript({"orders": make_route({"broker-a": {0: a.address}}, 1)})
        with ScriptedServer(routes) as name_server:
            client = RemotingClient(RemotingChannel(replace(PATIENT, name_servers=name_server.address)))
            assert read(client, QueueRange(queue(), 0, 100)) == {queue(): list(range(100))}
            routes.routes["orders"] = make_route({"broker-a": {0: a.address}, "broker-b": {0: b.address}}, 1)
            back = queue(0, "broker-b")
            assert read(client, QueueRange(back, 0, 100)) == {back: list(range(100))}
            client.close()
