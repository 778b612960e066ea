"""Reads from Apache's brokers: kills and restarts, bodies of all sizes, slaves, members of a group, no filters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from processes.apache.cluster import ApacheCluster, make_cluster, make_replicated_cluster
from processes.apache.releases import Release
from rmqpull_client.connection import wrap_name
from rmqpull_client.errors import OptionError
from rmqpull_client.flow import Flow
from rmqpull_client.model import SQL92, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from tests.clients.programs.java.consumer import JavaConsumer
from tests.clients.programs.java.mqadmin import run_mqadmin
from tests.harness.apache import StartApache
from tests.harness.served_apache import ServedApache
from tests.harness.waiting import wait_until


def numbered(count: int, size: int = 100) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array([b"%d" % number + bytes(size) for number in range(count)])})


def everything(served: ServedApache) -> list[QueueRange]:
    bounds = served.client.query_bounds(["orders"])["orders"].queues
    return [QueueRange(queue, *found) for queue, found in bounds.items()]


def read_all(served: ServedApache, ranges: Sequence[QueueRange]) -> Mapping[MessageQueue, list[int]]:
    found: dict[MessageQueue, list[int]] = {}
    for step in served.client.read("readers", ranges, ["queueOffset", "body"]):
        for entry in step:
            for batch in entry.batches:
                found.setdefault(entry.queue, []).extend(batch.column("queueOffset").to_pylist())
    return found


@pytest.mark.parametrize(("size", "count"), [(1_000, 5_000), (100_000, 300), (4_000_000, 12)])
@pytest.mark.parametrize("flow", [Flow(), Flow(pull_threshold_size_for_topic=1)], ids=["64 MiB", "1 MiB"])
def test_bodies_of_all_sizes(apache: ApacheCluster, size: int, count: int, flow: Flow) -> None:
    served = ServedApache(apache, 4, flow)
    served.publish(numbered(count, size))
    ranges = everything(served)
    assert read_all(served, ranges) == {entry.queue: list(range(entry.until_offset)) for entry in ranges}


@pytest.mark.nightly
def test_brokers_that_are_killed_in_the_middle_of_a_read(start_apache: StartApache) -> None:
    cluster = start_apache(make_cluster, masters=("broker-a", "broker-b"))
    served = ServedApache(cluster, 8)
    served.publish(numbered(60_000))
    ranges = everything(served)
    assert {entry.queue.broker_name for entry in ranges} == {"broker-a", "broker-b"}
    found: dict[MessageQueue, list[int]] = {}
    victims = list(cluster.brokers)
    for step in served.client.read("readers", ranges, ["queueOffset"]):
        for entry in step:
            for batch in entry.batches:
                found.setdefault(entry.queue, []).extend(batch.column("queueOffset").to_pylist())
        if victims:
            victims.pop().restart()
    assert not victims
    assert found == {entry.queue: list(range(entry.until_offset)) for entry in ranges}


@pytest.mark.nightly
def test_a_slave_is_read_while_its_master_is_away(start_apache: StartApache) -> None:
    cluster = start_apache(make_replicated_cluster)
    served = ServedApache(cluster, 4)
    served.publish(numbered(2_000))
    ranges = everything(served)
    slave = cluster.find_broker("broker-a", 1)

    def count_copied() -> int:
        calls = [
            cluster.administration.call(
                slave.address, 30, {"topic": served.topic, "queueId": entry.queue.queue_id}, refusals_allowed=(17,)
            )
            for entry in ranges
        ]
        known = cluster.administration.call(slave.address, 202, {"topic": served.topic}, refusals_allowed=(17,))
        return 0 if known.code else sum(int(call.fields["offset"]) for call in calls)

    wait_until(lambda: count_copied() == 2_000, "copied to the slave")
    cluster.find_broker("broker-a").kill()
    assert read_all(served, ranges) == {entry.queue: list(range(entry.until_offset)) for entry in ranges}


def test_sql_is_refused_if_brokers_do_not_evaluate_it(start_apache: StartApache) -> None:
    served = ServedApache(start_apache(make_cluster, properties={"enablePropertyFilter": "false"}))
    with pytest.raises(OptionError, match=r"enablePropertyFilter=true"):
        served.client.check_filter("g", MessageQueue("orders", "broker-a", 0), 0, MessageFilter("a > 1", SQL92))


def test_a_group_with_members_keeps_its_offsets(apache: ApacheCluster, apache_release: Release, tmp_path: Path) -> None:
    """The group shows in `mqadmin consumerProgress` as soon as its offsets are set without members."""
    served = ServedApache(apache)
    served.send(b"one", b"two")
    queue = MessageQueue("orders", "broker-a", 0)
    group = wrap_name(served.namespace, "g")
    served.client.set_consumer_offsets("g", {queue: 1})
    shown = run_mqadmin(apache_release, apache.addresses, tmp_path, "consumerProgress", "-g", group)
    assert re.search(rf"{served.topic}\s+broker-a\s+0\s+2\s+1\b", shown), shown
    with JavaConsumer(apache_release, apache.addresses, tmp_path, served.topic, group):
        client = connect(replace(served.connection, client_id="another"))
        with pytest.raises(OptionError, match=r"Consumer group g has members .*commitOffsets to false"):
            client.set_consumer_offsets("g", {queue: 2})
        client.close()
