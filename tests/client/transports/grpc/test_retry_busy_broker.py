"""Both transports retry when the broker responds with TOO_MANY_REQUESTS."""

from __future__ import annotations

import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.errors import RequestRefused
from rmqpull_client.flow import Flow
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect

PULLS = {"columns": "PullColumns", "none": "PullMessage"}


@pytest.mark.parametrize("after", [False, True])
def test_a_pull_of_a_busy_broker_is_retried(extensions: str, after: bool) -> None:
    with running_broker({"orders": 1}, extensions=extensions) as broker:
        broker.send("orders", b"one", b"two")
        rule_id = broker.faults.fail(PULLS[extensions], "TOO_MANY_REQUESTS", times=2, after=after)
        client = connect(Connection(broker.endpoints, 60_000), Flow(pull_batch_size=256))
        pulled = list(client.read("g", [QueueRange(MessageQueue("orders", "broker-a", 0), 0, 2)], ["body"]))
        rows = [row for answer in pulled for _, batches in answer for batch in batches for row in batch.to_pylist()]
        assert [row["body"] for row in rows] == [b"one", b"two"]
        assert [report.injected for report in broker.faults.reports() if report.rule_id == rule_id] == [2]
        client.close()


def test_a_wait_at_a_busy_broker_is_retried_and_ends_after_its_timeout(extensions: str) -> None:
    """If the wait ended at once, Spark would plan again at once, and the busy server would get even more requests."""
    with running_broker({"orders": 2}, extensions=extensions) as broker:
        rule_id = broker.faults.fail(PULLS[extensions], "TOO_MANY_REQUESTS", times=3)
        client = connect(Connection(broker.endpoints, 60_000))
        waited = {MessageQueue("orders", "broker-a", queue_id): 0 for queue_id in (0, 1)}
        assert not client.wait_for_messages("g", waited, 50)
        assert [report.injected for report in broker.faults.reports() if report.rule_id == rule_id] == [3]
        client.close()


def test_a_refused_wait_is_an_error(extensions: str) -> None:
    """If it counted as messages, the query would repeat it again and again."""
    with running_broker({"orders": 1}, extensions=extensions) as broker:
        broker.faults.fail(PULLS[extensions], "FORBIDDEN", times=1)
        client = connect(Connection(broker.endpoints, 60_000))
        with pytest.raises(RequestRefused, match="FORBIDDEN"):
            client.wait_for_messages("g", {MessageQueue("orders", "broker-a", 0): 0}, 50)
        client.close()
