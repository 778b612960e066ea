"""A driver is killed after the commit of a write, before it, and within a batch write."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from demo import checkpoint as spark_checkpoint
from processes.children import Children
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import RunningBroker, running_broker
from soak.plan import AT_LEAST_ONCE, EXACTLY_ONCE
from soak.query import Query
from soak.servers import COPIED
from tests.harness.soak_query import SETTING, WAIT_SECONDS_MAX, wait_for_query
from tests.harness.waiting import wait_until

TOPICS: dict[str, int | tuple[int, TopicType]] = {"orders": 2, COPIED: (3, TopicType.FIFO)}
ONCE = replace(SETTING, delivery=EXACTLY_ONCE)


def copied(broker: RunningBroker) -> list[tuple[str, int]]:
    """Returns queue and offset of the row that each message is a copy of."""
    messages = [row.message for row in broker.messages(COPIED)]
    return [(message.properties["queueId"], int(message.properties["queueOffset"])) for message in messages]


def open_stages(broker: RunningBroker) -> list[str]:
    return broker.look(lambda state: list(state.stages.all()))


def test_a_micro_batch_that_only_the_broker_has_committed_is_not_written_again(
    tmp_path: Path, children: Children
) -> None:
    """The driver is killed after the broker's commit and before its own log entry."""
    with running_broker(TOPICS) as broker:
        broker.send("orders", *(b"%03d" % number for number in range(30)))
        held = broker.faults.hold("CommitStages", times=None, after=True)
        query = Query(children, tmp_path, {"endpoints": broker.endpoints}, ONCE)
        query.start(max_offsets=10)
        wait_for_query(lambda: bool(broker.faults.kept(held)), "committed", query)
        query.kill()
        assert spark_checkpoint.unfinished(query.checkpoint) == 0
        assert sorted(copied(broker)) == [(queue, at) for queue in "01" for at in range(5)]

        broker.faults.clear()
        assert query.drain(WAIT_SECONDS_MAX), query.log_end
        everything = copied(broker)
        assert sorted(everything) == [(queue, at) for queue in "01" for at in range(15)]
        assert [at for queue, at in everything if queue == "0"] == list(range(15))
        assert open_stages(broker) == []


@pytest.mark.nightly
def test_at_least_once_repeats_the_messages_of_a_killed_driver_with_the_same_ids(
    tmp_path: Path, children: Children
) -> None:
    setting = replace(ONCE, delivery=AT_LEAST_ONCE)
    with running_broker(TOPICS) as broker:
        broker.send("orders", *(b"%03d" % number for number in range(30)))
        held = broker.faults.hold("PublishColumns", times=None, after=True)
        query = Query(children, tmp_path, {"endpoints": broker.endpoints}, setting)
        query.start(max_offsets=10)
        wait_for_query(lambda: bool(broker.faults.kept(held)), "published", query)
        query.kill()
        assert copied(broker)

        broker.faults.clear()
        assert query.drain(WAIT_SECONDS_MAX), query.log_end
        everything = [row.message for row in broker.messages(COPIED)]
        by_id: dict[str, set[bytes]] = {}
        for message in everything:
            by_id.setdefault(message.properties["rmqpullId"], set()).add(message.body)
        assert len(everything) > 30
        assert sorted(body for bodies in by_id.values() for body in bodies) == [b"%03d" % n for n in range(30)]


@pytest.mark.parametrize("rpc", [pytest.param("StageColumns", marks=pytest.mark.nightly), "CommitStages"])
def test_a_killed_batch_write_leaves_neither_messages_nor_stages(tmp_path: Path, children: Children, rpc: str) -> None:
    """It waits for held responses of its first calls; or everything is staged, and only the commit is missing."""
    with running_broker({"orders": 2}, clock="manual") as broker:
        held = broker.faults.hold(rpc, times=None, after=rpc == "StageColumns")
        options = {"endpoints": broker.endpoints, "topic": "orders", "transactionTimeoutMs": "10000"}
        job = str(Path(__file__).with_name("write_job.py"))
        config = json.dumps({"rows": 1_000, "options": options})
        write = children.start("write", [sys.executable, job, config], tmp_path / "write.log")
        write.wait_until(lambda: bool(broker.faults.kept(held)), f"asked for {rpc}", WAIT_SECONDS_MAX)
        assert open_stages(broker) != []
        write.kill()
        wait_until(lambda: not broker.faults.kept(held), "hung up")
        broker.faults.clear()
        broker.clock.advance(ms=10_000)
        wait_until(lambda: open_stages(broker) == [], "dropped by the timeout")
        assert broker.messages("orders") == []


@pytest.mark.nightly
def test_each_write_of_a_killed_foreach_batch_is_complete_or_absent(tmp_path: Path, children: Children) -> None:
    """The kill is between the writes: the first one is stored, and again with the retried micro-batch. The second
    one is not.
    """
    bodies = [b"%02d" % number for number in range(40)]
    with running_broker({"orders": 2, "copies": 3, "counts": 1}) as broker:
        broker.send("orders", *bodies)
        held = broker.faults.hold("StageColumns", times=None, after=True, topic="counts")
        example = str(Path(__file__).parents[2] / "examples" / "for_each_batch.py")
        command = [sys.executable, example, broker.endpoints, str(tmp_path / "folder")]
        killed = children.start("killed", command, tmp_path / "killed.log")
        killed.wait_until(lambda: bool(broker.faults.kept(held)), "begun the second write", WAIT_SECONDS_MAX)
        killed.kill()
        assert sorted(row.message.body for row in broker.messages("copies")) == bodies
        assert broker.messages("counts") == []

        broker.faults.clear()
        again = children.start("again", command, tmp_path / "again.log")
        assert again.wait(WAIT_SECONDS_MAX) == 0, again.log_end()
        assert sorted(row.message.body for row in broker.messages("copies")) == sorted(bodies * 2)
        assert [row.message.body for row in broker.messages("counts")] == [b"40"]
