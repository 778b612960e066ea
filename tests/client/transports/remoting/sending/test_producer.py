"""A producer stores every row at least once, whatever brokers answer, and says what it could not store."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerUnavailable,
    RequestRefused,
    RmqpullError,
    RowsRefused,
    TopicNotFound,
)
from rmqpull_client.transports.choice import get_producer
from rmqpull_client.transports.port import Producer
from rmqpull_client.transports.remoting.sending.producer import RemotingProducer
from rmqpull_proto.columns import PUBLISH_SCHEMA
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, encode_command
from rmqpull_proto.remoting.routes import TopicRoute
from tests.harness.scripted_remoting import Act, Reaction, RouteScript, ScriptedServer, make_route
from tests.harness.storing_broker import StoredMessage, StoringBroker

Connect = Callable[..., Producer]
V4_9_0 = 393


@pytest.fixture
def brokers() -> Iterator[list[StoringBroker]]:
    """Two brokers, which have two queues of each topic."""
    first, second = StoringBroker(), StoringBroker()
    with first, second:
        yield [first, second]


@pytest.fixture
def routes(brokers: list[StoringBroker]) -> RouteScript:
    first, both = {"a": {0: brokers[0].address}}, {"a": {0: brokers[0].address}, "b": {0: brokers[1].address}}
    return RouteScript(
        {
            "orders": make_route(first, queues=1),
            "spread": make_route(both, queues=2),
            "shop%orders": make_route(first, queues=1),
            "%RETRY%g": make_route(first, queues=1),
            "sealed": make_route(first, perm=4),
        }
    )


@pytest.fixture
def connect(routes: RouteScript) -> Iterator[Connect]:
    with ExitStack() as stack:
        name_server = stack.enter_context(ScriptedServer(routes))

        def get(**settings: Any) -> Producer:
            given = {"name_servers": name_server.address, "request_retry_interval_ms": 1, **settings}
            return get_producer(Connection(**given), "my-group")

        yield get


def rows(*bodies: bytes, **columns: list[Any]) -> pa.RecordBatch:
    given = {"body": list(bodies), **columns}
    return pa.record_batch({name: pa.array(given[name], PUBLISH_SCHEMA.field(name).type) for name in given})


def publish(producer: Producer, batch: pa.RecordBatch, topic: str = "orders", by_keys: bool = False) -> None:
    producer.start_publish([(topic, batch.num_rows)], batch, by_keys)()


def test_rows_are_stored_as_one_batch_with_their_properties(connect: Connect, brokers: list[StoringBroker]) -> None:
    publish(connect(), rows(b"1", b"2", tags=["T", None], keys=[["k", "l"], None]))
    (request,) = brokers[0].sends
    assert request.code == RequestCode.SEND_BATCH_MESSAGE
    assert {name: request.fields[name] for name in "abfm"} == {"a": "my-group", "b": "orders", "f": "0", "m": "true"}
    first, second = brokers[0].stored
    assert (first.body, first.properties["TAGS"], first.properties["KEYS"]) == (b"1", "T", "k l")
    assert second.properties.keys() == {"UNIQ_KEY"}


def test_a_missing_topic_is_not_created(connect: Connect, brokers: list[StoringBroker], routes: RouteScript) -> None:
    producer = connect(poll_name_server_interval_ms=1)
    with pytest.raises(TopicNotFound, match="has no route for topic absent"):
        publish(producer, rows(b"1"), "absent")
    brokers[0].answer(17, "topic[orders] not exist, apply first please!", times=1_000)
    brokers[0].settings = None
    with pytest.raises(RmqpullError, match="TOPIC_NOT_EXIST"):
        publish(connect(request_retries=2), rows(b"1"))
    # The broker would create the topic by the settings of the one that the send names.
    assert {request.fields["c"] for request in brokers[0].requests if "c" in request.fields} == {"orders"}


@pytest.mark.parametrize(("code", "remark"), [(10, ""), (11, ""), (12, ""), (2, "broker busy"), (14, "full"), (1, "")])
def test_a_send_that_is_not_safely_stored_is_repeated(
    connect: Connect, brokers: list[StoringBroker], code: int, remark: str
) -> None:
    brokers[0].answer(code, remark, times=3)
    publish(connect(), rows(b"1", b"2"))
    assert brokers[0].list_bodies() == [b"1", b"2"]
    assert len(brokers[0].sends) == 4


def test_time_in_which_the_caller_is_busy_counts_towards_no_time_limit(
    connect: Connect, brokers: list[StoringBroker]
) -> None:
    brokers[0].answer(2, "broker busy")
    producer, busy_s = connect(), 0.0
    assert isinstance(producer, RemotingProducer)
    producer._clock = lambda: time.monotonic() + busy_s
    batch = rows(b"1")
    wait = producer.start_publish([("orders", 1)], batch, False)
    busy_s = 1_000.0
    wait()
    assert brokers[0].list_bodies() == [b"1"]


def test_if_retries_do_not_help_the_error_names_the_code(connect: Connect, brokers: list[StoringBroker]) -> None:
    brokers[0].answer(12, "slave is slow", times=99)
    with pytest.raises(BrokerBusy, match=r"FLUSH_SLAVE_TIMEOUT \(12\): slave is slow. It was sent 3 times"):
        publish(connect(request_retries=2), rows(b"1"))
    assert len(brokers[0].sends) == 3


def test_a_refusal_is_not_repeated(connect: Connect, brokers: list[StoringBroker]) -> None:
    brokers[0].answer(16, "the broker[127.0.0.1] sending message is forbidden")
    with pytest.raises(RequestRefused, match=r"NO_PERMISSION \(16\)"):
        publish(connect(), rows(b"1"))
    assert len(brokers[0].sends) == 1


def test_a_lost_connection_is_opened_again(connect: Connect, brokers: list[StoringBroker]) -> None:
    brokers[0].reactions.append(lambda request, messages: Act.CLOSE)
    publish(connect(), rows(b"1", b"2"))
    assert brokers[0].list_bodies() == [b"1", b"2"]


def test_an_idle_connection_that_the_broker_has_closed_is_opened_again(
    connect: Connect, brokers: list[StoringBroker]
) -> None:
    producer = connect(request_retries=0)
    publish(producer, rows(b"1"))
    brokers[0].close_connections()
    publish(producer, rows(b"2"))
    assert brokers[0].list_bodies() == [b"1", b"2"]


def test_rows_for_any_queue_go_to_all_queues_and_around_a_broker_that_is_away(
    connect: Connect, brokers: list[StoringBroker]
) -> None:
    producer = connect()
    for number in range(8):
        publish(producer, rows(b"%d" % number), "spread")
    assert [len(broker.list_bodies(queue)) for broker in brokers for queue in range(2)] == [2, 2, 2, 2]
    brokers[0].stop()
    waits = [producer.start_publish([("spread", 1)], rows(b"later %d" % number), False) for number in range(8)]
    for wait in waits:
        wait()
    assert sorted(body for body in brokers[1].list_bodies() if body.startswith(b"later")) == [
        b"later %d" % number for number in range(8)
    ]


def test_a_broker_that_stays_away_is_an_error_that_names_it(connect: Connect, brokers: list[StoringBroker]) -> None:
    brokers[0].stop()
    with pytest.raises(BrokerUnavailable, match=f"Broker a did not respond .*{brokers[0].address}"):
        publish(connect(request_retries=2), rows(b"1"))


def test_rows_wait_for_a_master_while_there_is_only_a_slave(
    connect: Connect, brokers: list[StoringBroker], routes: RouteScript
) -> None:
    complete, slave = routes.routes["orders"], make_route({"a": {1: brokers[0].address}}, queues=1)
    routes.routes["orders"] = slave
    with pytest.raises(BrokerUnavailable, match=r"No broker of topic orders at .* has had a master within 1000 ms"):
        publish(connect(request_timeout_ms=1_000), rows(b"1"))
    asked = list[str]()

    class Returning(dict[str, TopicRoute]):
        """The routes: the second answer has the master."""

        def get(self, topic: str, default: Any = None) -> Any:
            asked.append(topic)
            return complete if len(asked) > 1 else slave

    routes.routes = Returning()
    publish(connect(), rows(b"2"))
    assert brokers[0].list_bodies() == [b"2"]


def test_several_calls_are_in_flight_at_once(connect: Connect, brokers: list[StoringBroker]) -> None:
    held = list[RemotingCommand]()

    def hold(request: RemotingCommand, messages: list[StoredMessage]) -> Reaction:
        held.append(request)
        if len(held) < 3:
            return Act.STALL
        brokers[0].stored += messages
        return b"".join(encode_command(each.make_response(0)) for each in held)

    brokers[0].reactions += [hold] * 3
    producer = connect()
    waits = [producer.start_publish([("orders", 1)], rows(b"%d" % number), False) for number in range(3)]
    for wait in waits:
        wait()
    assert len(held) == 3


@pytest.mark.parametrize("columns", [{"messageGroup": ["g"]}, {"keys": [["k"]]}])
def test_ordered_rows_keep_their_order_through_failures(
    connect: Connect, brokers: list[StoringBroker], columns: dict[str, list[Any]]
) -> None:
    draw = random.Random(7)

    def disturb(request: RemotingCommand, messages: list[StoredMessage]) -> Reaction | None:
        brokers[0].reactions.append(disturb)
        return draw.choice([None, None, Act.CLOSE, request.make_response(2, remark="broker busy")])

    brokers[0].reactions.append(disturb)
    producer = connect()
    waits = []
    for first in range(0, 60, 3):
        batch = rows(
            *(b"%02d" % number for number in range(first, first + 3)),
            **{name: each * 3 for name, each in columns.items()},
        )
        waits.append(producer.start_publish([("orders", 3)], batch, True))
    for wait in waits:
        wait()
    assert brokers[0].list_bodies() == [b"%02d" % number for number in range(60)]


def test_a_row_that_is_illegal_is_named_and_the_others_are_stored_once(
    connect: Connect, brokers: list[StoringBroker]
) -> None:
    brokers[0].refuse(lambda message: message.body == b"bad")
    batch = rows(b"0", b"1", b"2", b"bad", b"4", b"5", properties=[None, [("a", "")], None, None, None, None])
    with pytest.raises(RowsRefused, match="2 rows are illegal; the first: property a is empty") as refused:
        publish(connect(), batch)
    assert sorted(refused.value.reasons) == [1, 3]
    assert "MESSAGE_ILLEGAL (13): illegal" in refused.value.reasons[3]
    assert sorted(brokers[0].list_bodies()) == [b"0", b"2", b"4", b"5"]


def test_retry_topics_get_single_messages(connect: Connect, brokers: list[StoringBroker]) -> None:
    publish(connect(), rows(b"1", b"2"), "%RETRY%g")
    assert [request.code for request in brokers[0].sends] == [RequestCode.SEND_MESSAGE_V2] * 2


def test_names_are_in_the_namespace(connect: Connect, brokers: list[StoringBroker]) -> None:
    publish(connect(namespace="shop"), rows(b"1"))
    (request,) = brokers[0].sends
    assert [request.fields[name] for name in "abc"] == ["shop%my-group", "shop%orders", "shop%orders"]


@pytest.mark.parametrize(
    ("settings", "types"),
    [
        (b'{"attributes":{}}', {"NORMAL", "FIFO", "DELAY"}),
        (b'{"attributes":{"message.type":"FIFO"}}', {"FIFO"}),
        (b'{"attributes":{"message.type":"MIXED"}}', {"NORMAL", "FIFO", "DELAY", "TRANSACTION"}),
        (b"no JSON", {"NORMAL", "FIFO", "DELAY"}),
        (None, {"NORMAL", "FIFO", "DELAY"}),  # 4.x
    ],
)
def test_a_topic_takes_the_types_of_its_attribute(
    connect: Connect, brokers: list[StoringBroker], settings: bytes | None, types: set[str]
) -> None:
    brokers[0].settings = settings
    assert connect().query_message_types("orders") == types


def test_a_broker_of_4_x_is_not_asked_for_attributes(routes: RouteScript) -> None:
    """4.9.0 does not respond to a request that it does not know."""

    def react(request: RemotingCommand) -> Reaction:
        is_known = request.code == RequestCode.GET_MAX_OFFSET
        return replace(request.make_response(0, {"offset": "0"}), version=V4_9_0) if is_known else Act.STALL

    with ScriptedServer(react) as broker, ScriptedServer(routes) as name_server:
        routes.routes["old"] = make_route({"a": {0: broker.address}}, queues=1)
        producer = get_producer(Connection(name_servers=name_server.address))
        assert producer.query_message_types("old") == {"NORMAL", "FIFO", "DELAY"}
        assert [request.code for request in broker.requests] == [RequestCode.GET_MAX_OFFSET]


def test_requests_cannot_say_how_many_rows_go_to_one_queue(connect: Connect) -> None:
    producer = connect()
    assert not producer.abilities.takes_slice_rows
    assert [producer.count_queues(topic) for topic in ("orders", "spread")] == [1, 4]


def test_a_topic_without_writable_queues_is_refused(connect: Connect) -> None:
    with pytest.raises(RequestRefused, match=r"Topic sealed at .* has no writable queue") as refused:
        connect().query_message_types("sealed")
    assert refused.value.code == "FORBIDDEN"


def test_nothing_can_be_staged(connect: Connect) -> None:
    abilities = connect().abilities
    assert abilities.no_stages == "RocketMQ's own brokers store each message for itself"
    assert (abilities.no_columns, abilities.keeps_order) == (None, True)
