"""A stream plans a write without its server, if the server has answered before."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import cast

import pytest

from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.sending import AT_LEAST_ONCE
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink import targets
from pyspark_rmqpull.sink.targets import check_stream_targets
from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable, OptionError
from rmqpull_client.transports import reached
from rmqpull_client.transports.away import AnsweredServers
from rmqpull_client.transports.port import Producer
from rmqpull_client.transports.reached import list_reached
from rmqpull_proto.remoting.codes import ResponseCode
from tests.harness.fake_producer import FakeProducer
from tests.harness.scripted_remoting import RouteScript, ScriptedServer, make_route, refuse_code

OPTIONS = SinkOptions.from_options({"endpoints": "a:1", "topic": "orders"}, Mode.STREAM)


class Away(FakeProducer):
    """A producer of a server that does not respond."""

    def query_message_types(self, topic: str) -> frozenset[str]:
        raise BrokerUnavailable("no response")


@pytest.fixture
def answered(monkeypatch: pytest.MonkeyPatch) -> AnsweredServers:
    fresh = AnsweredServers()
    monkeypatch.setattr(reached, "ANSWERED", fresh)
    return fresh


def check(monkeypatch: pytest.MonkeyPatch, producer: FakeProducer) -> tuple[SinkOptions, Connection]:
    """Checks the targets of a micro-batch. Returns the options and the connection over which it asked."""
    asked: list[Connection] = []

    def get_producer(connection: Connection, group: str) -> Producer:
        asked.append(connection)
        return cast("Producer", producer)

    monkeypatch.setattr(targets, "get_producer", get_producer)
    checked = targets.check_stream_targets(OPTIONS, ["body"])
    (connection,) = asked
    return checked, connection


def test_a_server_that_has_never_answered_ends_the_query(
    monkeypatch: pytest.MonkeyPatch, answered: AnsweredServers
) -> None:
    with pytest.raises(BrokerUnavailable):
        check(monkeypatch, Away())


def test_a_server_that_is_away_is_left_to_the_tasks(monkeypatch: pytest.MonkeyPatch, answered: AnsweredServers) -> None:
    answered.add("a:1")
    checked, connection = check(monkeypatch, Away())
    assert checked == OPTIONS
    assert checked.delivery is None, "the tasks choose"
    assert (connection.request_timeout_ms, connection.server_away_timeout_ms) == (targets.PLANNING_MAX_MS, 0)


def test_a_server_that_answers_is_checked(
    monkeypatch: pytest.MonkeyPatch, answered: AnsweredServers, producer: FakeProducer
) -> None:
    answered.add("a:1")
    assert check(monkeypatch, producer)[0].delivery is not None
    producer.types = {"orders": {"TRANSACTION"}}
    with pytest.raises(OptionError, match="only transactional messages"):
        check(monkeypatch, producer)


@pytest.fixture
def begin_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[], None]:
    """Begins another process of the same application: it has no connections, and knows no routes."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    process_ids = count(-1, -1)

    def begin() -> None:
        process_id = next(process_ids)
        monkeypatch.setattr(os, "getpid", lambda: process_id)

    return begin


def test_a_topic_is_known_although_its_broker_has_not_registered_again(begin_process: Callable[[], None]) -> None:
    """Each micro-batch is planned by a new process. The name server was started again, and has another broker only."""
    with ScriptedServer(refuse_code) as broker:
        routes = RouteScript({"orders": make_route({"broker-a": {0: broker.address}})})
        with ScriptedServer(routes) as name_server:
            given = {"nameServers": name_server.address, "topic": "orders", "requestRetries": "1"}
            options = SinkOptions.from_options(given, Mode.STREAM)
            for _ in range(2):
                begin_process()
                assert check_stream_targets(options, ["body"]).delivery == AT_LEAST_ONCE
            routes.routes = {"others": make_route({"broker-b": {0: "127.0.0.1:1"}})}

            begin_process()
            assert check_stream_targets(options, ["body"]).delivery == AT_LEAST_ONCE, "its broker runs"
            broker.stop()
            begin_process()
            assert check_stream_targets(options, ["body"]).delivery is None, "left to the tasks"
            assert list_reached(options.connection, ["orders"]).routes, "and they know the route"
            broker.script = lambda request: request.make_response(ResponseCode.TOPIC_NOT_EXIST)
            broker.start()
            begin_process()
            with pytest.raises(OptionError, match=r"Cannot write to topic orders: .* has no route for topic orders"):
                check_stream_targets(options, ["body"])
