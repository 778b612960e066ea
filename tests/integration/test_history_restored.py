"""A data directory of rmqpull-broker that is restored from a backup, or loses its tail: noticed over each protocol.

Runs once: the protocols are parameters here, and Apache's servers have other data directories.
"""

from __future__ import annotations

import json
import os
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.errors import DataLoss
from rmqpull_client.transports.grpc.channel import BrokerChannel
from tests.harness.fake_broker_client import ManualClock
from tests.harness.stream_query import Json, StreamQuery

if TYPE_CHECKING:
    from rmqpull_broker.testing import RunningBroker


def start_query(broker: RunningBroker, protocol: str, end: Json | None, **options: str) -> StreamQuery:
    where = {"nameServers": broker.remoting_addresses[0]} if protocol == "remoting" else {"endpoints": broker.endpoints}
    checkpoint = None if end is None else json.loads(json.dumps(end))
    return StreamQuery(ManualClock(), checkpoint, topic="orders", **where, **options)


def read(query: StreamQuery) -> list[bytes]:
    query.plan()
    return [] if query.is_idle else read_again(query, query.start, query.end)


def read_again(query: StreamQuery, start: Json, end: Json) -> list[bytes]:
    """Reads a micro-batch that is planned, as Spark does after a restart when an earlier run has not finished it."""
    tasks = query.reader.partitions(start, end)
    return [body for task in tasks for batch in query.reader.read(task) for body in batch.column("body").to_pylist()]


def serve(folder: Path, protocol: str) -> AbstractContextManager[RunningBroker]:
    extensions = "none" if protocol == "standard" else "columns,admin,stages"
    return running_broker({"orders": 1}, data_dir=str(folder), extensions=extensions, remoting=True)


@pytest.mark.parametrize("count", [7, 2], ids=["grown past the offset", "ends below the offset"])
@pytest.mark.parametrize("protocol", ["columns", "standard", "remoting"])
def test_the_new_messages_are_read_and_no_others(tmp_path: Path, protocol: str, count: int) -> None:
    data_dir, backup = tmp_path / "data", tmp_path / "backup"
    with serve(data_dir, protocol) as broker:
        broker.send("orders", b"0", b"1")
    shutil.copytree(data_dir, backup)
    with serve(data_dir, protocol) as broker:
        broker.send("orders", b"2", b"3", b"4")
        query = start_query(broker, protocol, None)
        assert read(query) == [b"0", b"1", b"2", b"3", b"4"]
        assert read(query) == []
    with serve(data_dir, protocol) as broker:
        broker.send("orders", b"5")
        assert read(start_query(broker, protocol, query.end)) == [b"5"]  # a restart alone rewrites nothing
    new = [b"new %d" % number for number in range(count)]
    with serve(backup, protocol) as broker:
        broker.send("orders", *new)
        with pytest.raises(DataLoss, match=r"different message at offset 4|ends at offset 4, before offset 5"):
            start_query(broker, protocol, query.end).plan()
        survivor = start_query(broker, protocol, query.end, failOnDataLoss="false")
        assert read(survivor) == new
        assert read(survivor) == []


@pytest.mark.parametrize("protocol", ["columns", "standard", "remoting"])
def test_an_unfinished_micro_batch_is_compared_before_it_is_read_again(tmp_path: Path, protocol: str) -> None:
    data_dir, backup = tmp_path / "data", tmp_path / "backup"
    with serve(data_dir, protocol) as broker:
        broker.send("orders", b"0", b"1")
    shutil.copytree(data_dir, backup)
    with serve(data_dir, protocol) as broker:
        query = start_query(broker, protocol, None)
        assert read(query) == [b"0", b"1"]
        broker.send("orders", b"2", b"3", b"4")
        query.plan()
    with serve(data_dir, protocol) as broker:
        again = start_query(broker, protocol, query.end)
        assert read_again(again, query.start, query.end) == [b"2", b"3", b"4"]
    with serve(backup, protocol) as broker:
        broker.send("orders", *(b"new %d" % number for number in range(5)))
        with pytest.raises(DataLoss, match=r"different message at offset 4 .* a micro-batch that it has not finished"):
            read_again(start_query(broker, protocol, query.end), query.start, query.end)
        survivor = start_query(broker, protocol, query.end, failOnDataLoss="false")
        assert read_again(survivor, query.start, query.end) == [b"new 0", b"new 1", b"new 2"]
        assert read(survivor) == [b"new %d" % number for number in range(5)]


@pytest.mark.parametrize("protocol", ["columns", "standard", "remoting"])
def test_a_tail_that_is_lost_in_a_crash_is_noticed(tmp_path: Path, protocol: str) -> None:
    """The disk has kept a part of what was acknowledged, and half of a record. The topic keeps its creation id."""
    data_dir, crashed = tmp_path / "data", tmp_path / "crashed"

    with serve(data_dir, protocol) as broker:
        broker.send("orders", b"0", b"1")
        (log,) = data_dir.glob("*.log")
        kept = log.stat().st_size
        broker.send("orders", b"2")
        lost = log.stat().st_size
        broker.send("orders", b"3", b"4")
        query = start_query(broker, protocol, None)
        assert read(query) == [b"0", b"1", b"2", b"3", b"4"]
        shutil.copytree(data_dir, crashed)
    os.truncate(crashed / log.name, (kept + lost) // 2)
    with serve(crashed, protocol) as broker:
        assert [bounds.max_offset for bounds in broker.bounds("orders").values()] == [2]
        with pytest.raises(DataLoss, match="ends at offset 2, before offset 5"):
            start_query(broker, protocol, query.end).plan()
        new = [b"new %d" % number for number in range(4)]
        broker.send("orders", *new)
        with pytest.raises(DataLoss, match="different message at offset 4"):
            start_query(broker, protocol, query.end).plan()
        assert read(start_query(broker, protocol, query.end, failOnDataLoss="false")) == new


def test_a_running_query_notices_that_the_server_was_started_again(tmp_path: Path) -> None:
    """By the id of its run, which comes with the bounds: gRPC connects again without telling."""
    channel = BrokerChannel(Connection("127.0.0.1:1"))
    assert channel.instances_seen is None
    channel.note_instance("")  # an older server
    assert channel.instances_seen is None
    for instance_id, seen in (("a", 1), ("a", 1), ("b", 2)):
        channel.note_instance(instance_id)
        assert channel.instances_seen == seen
    with running_broker({"orders": 1}) as broker:
        query = start_query(broker, "columns", None)
        query.plan()
        client = query.reader._client()
        before = client.lost_connections
        assert before is not None
        query.plan()
        assert client.lost_connections == before
