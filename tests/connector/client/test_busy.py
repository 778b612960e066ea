"""A broker that asks to come again later is asked again, whatever the transport."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.client import connect
from pyspark_rmqpull.connection import Connection
from pyspark_rmqpull.flow import Flow
from pyspark_rmqpull.model import MessageQueue, QueueRange
from rmqpull_broker.testing import running_broker

PULLS = {"columns": "PullColumns", "none": "PullMessage"}


@pytest.mark.parametrize("after", [False, True])
def test_a_pull_that_is_one_too_many_is_repeated(extensions: str, after: bool) -> None:
    with running_broker({"orders": 1}, extensions=extensions) as broker:
        broker.send("orders", b"one", b"two")
        rule_id = broker.faults.fail(PULLS[extensions], "TOO_MANY_REQUESTS", times=2, after=after)
        client = connect(Connection(broker.endpoints, 60_000), Flow(pull_batch_size=256))
        pulled = list(client.read("g", [QueueRange(MessageQueue("orders", "broker-a", 0), 0, 2)], ["body"]))
        rows = [row for answer in pulled for _, batches in answer for batch in batches for row in batch.to_pylist()]
        assert [row["body"] for row in rows] == [b"one", b"two"]
        assert [report.struck for report in broker.faults.reports() if report.rule_id == rule_id] == [2]
        client.close()
