"""The processes of one application share what has answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pyspark_rmqpull import shared_memory
from pyspark_rmqpull.schema import ROW_SCHEMA
from pyspark_rmqpull.shared_memory import FILE_NAME, AnsweredFile, RouteFiles, share_memory
from pyspark_rmqpull.source import RmqpullDataSource
from rmqpull_client.connection import Connection
from rmqpull_client.transports.away import AnsweredServers
from rmqpull_client.transports.reached import Reached
from rmqpull_client.transports.remoting.network.channel import get_remoting_channel
from tests.harness.scripted_remoting import make_route


def test_a_process_knows_what_has_answered_another_one_of_the_application(tmp_path: Path) -> None:
    here = {"SPARK_LOCAL_DIRS": f"{tmp_path},/elsewhere"}
    one, other, later = AnsweredServers(), AnsweredServers(), AnsweredServers()
    one.add("10.0.0.1:8081")
    for answered in (one, other):
        share_memory(answered, here)
        share_memory(answered, here)
    one.add("10.0.0.2:8081")
    other.add("10.0.0.2:8081")
    share_memory(later, here)
    assert "10.0.0.1:8081" in other
    assert "10.0.0.2:8081" in later
    assert "10.0.0.3:8081" not in later
    assert (tmp_path / FILE_NAME).read_text() == "10.0.0.1:8081\n10.0.0.2:8081\n"


def test_without_a_folder_nothing_is_shared(tmp_path: Path) -> None:
    answered = AnsweredServers()
    share_memory(answered, {})
    assert answered.shared is None
    missing = AnsweredFile(tmp_path / "missing" / FILE_NAME)
    missing.add("10.0.0.1:8081")
    assert "10.0.0.1:8081" not in missing


def test_a_process_knows_the_routes_that_another_one_of_the_application_knew(tmp_path: Path) -> None:
    files = RouteFiles({"SPARK_LOCAL_DIRS": str(tmp_path)})
    cluster = Connection(name_servers="10.0.0.9:9876")
    route = make_route({"broker-a": {0: "10.0.0.1:10911"}})
    assert files.recall(cluster, ["orders"]) == Reached()
    get_remoting_channel(cluster).cluster.learn("orders", route, 0.0)
    for _ in range(2):
        files.keep(cluster, ["orders", "nothing"])
    assert files.recall(cluster, ["orders", "nothing"]) == Reached(routes={"orders": route})
    assert files.recall(replace(cluster, name_servers="10.0.0.8:9876"), ["orders"]) == Reached()
    assert len(list(tmp_path.iterdir())) == 1


def test_without_a_folder_no_routes_are_kept(tmp_path: Path) -> None:
    cluster = Connection(name_servers="10.0.0.9:9876")
    get_remoting_channel(cluster).cluster.learn("orders", make_route({"broker-a": {0: "10.0.0.1:10911"}}), 0.0)
    for environment in ({}, {"SPARK_LOCAL_DIRS": str(tmp_path / "missing")}):
        files = RouteFiles(environment)
        files.keep(cluster, ["orders"])
        assert files.recall(cluster, ["orders"]) == Reached()


class SharedError(Exception):
    """Stands for the memory that is shared: nothing else of the process has begun."""


@pytest.mark.parametrize(
    "begin",
    [
        lambda source: source.reader(ROW_SCHEMA),
        lambda source: source.streamReader(ROW_SCHEMA),
        lambda source: source.writer(ROW_SCHEMA, overwrite=False),
        lambda source: source.streamWriter(ROW_SCHEMA, overwrite=False),
    ],
    ids=["reader", "streamReader", "writer", "streamWriter"],
)
def test_each_process_that_plans_shares_its_memory_before_it_asks_a_server(
    monkeypatch: pytest.MonkeyPatch, begin: Callable[[RmqpullDataSource], object]
) -> None:
    """Spark may start such a process for each micro-batch."""

    def share() -> None:
        raise SharedError

    monkeypatch.setattr(shared_memory, "share_memory", share)
    with pytest.raises(SharedError):
        begin(RmqpullDataSource({"endpoints": "127.0.0.1:1", "topic": "orders"}))
