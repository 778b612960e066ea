"""A driver is killed between the plan of a batch and its end: the next one reads the planned batch."""

from __future__ import annotations

from pathlib import Path

from demo import checkpoint as spark_checkpoint
from processes.children import Children
from rmqpull_broker.testing import RunningBroker, running_broker
from soak.output import rows
from soak.query import Query
from soak.servers import GROUP
from tests.harness.soak_query import SETTING, WAIT_SECONDS_MAX, wait_for_query


def send(broker: RunningBroker, first: int, until: int) -> None:
    broker.send("orders", *(b"%03d" % number for number in range(first, until)))


def test_the_next_driver_reads_the_batch_that_a_killed_one_planned(tmp_path: Path, children: Children) -> None:
    """Even with new messages and another ``maxOffsetsPerTrigger`` (docs/kafka-options.md, known complaints)."""
    with running_broker({"orders": 2}) as broker:
        send(broker, 0, 30)
        held = broker.faults.hold("PullColumns", times=None)
        query = Query(children, tmp_path, {"endpoints": broker.endpoints}, SETTING)
        query.start(max_offsets=10)
        # The driver pulls too, for the witnesses of the batch, and plans it without an answer.
        is_planned = (query.checkpoint / "offsets" / "0").exists
        wait_for_query(lambda: is_planned() and bool(broker.faults.kept(held)), "pulled", query)
        query.kill()
        planned = spark_checkpoint.source_offsets(query.checkpoint, 0)
        assert (spark_checkpoint.unfinished(query.checkpoint), list(rows(query.result))) == (0, [])
        assert broker.consumer_offsets(GROUP, "orders") == {}

        broker.faults.clear()
        send(broker, 30, 40)
        assert query.drain(WAIT_SECONDS_MAX), query.log_end
        assert spark_checkpoint.source_offsets(query.checkpoint, 0) == planned
        first = [row for row in rows(query.result) if row.batch_id == 0]
        assert sorted((row.queue_id, row.offset) for row in first) == [(q, at) for q in range(2) for at in range(5)]
        everything = [(row.queue_id, row.offset) for row in rows(query.result)]
        assert sorted(everything) == [(q, at) for q in range(2) for at in range(20)]
        assert set(broker.consumer_offsets(GROUP, "orders").values()) == {20}
