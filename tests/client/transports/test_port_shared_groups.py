"""Queries that share a group warn of each other. A reset causes no warning."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.progress.group_progress import GroupProgress
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.offsets.stores import RemoteBrokerOffsetStore
from rmqpull_client.transports.port import BrokerClient
from tests.harness.served_broker import ServeBroker

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2)]


def make_query(client: BrokerClient) -> GroupProgress:
    return GroupProgress("g", RemoteBrokerOffsetStore(lambda _: client, "g"), 60_000, Clock(), "c")


def at(offset: int) -> dict[MessageQueue, int]:
    return dict.fromkeys(QUEUES, offset)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        message
        for message in caplog.messages
        if message.startswith("Another query or consumer also sets the offsets of group g")
    ]


def test_two_queries_in_one_group_warn_once_each(serve: ServeBroker, caplog: pytest.LogCaptureFixture) -> None:
    client = serve(queues=2).client
    one, another = make_query(client), make_query(client)
    for round_number in range(1, 5):
        one.set_offsets(at(10 * round_number))
        another.set_offsets(at(round_number))
    assert len(warnings(caplog)) == 2


def test_a_query_alone_in_its_group_does_not_warn_after_a_reset(
    serve: ServeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve(queues=2)
    served.send(*[b"x"] * 40)
    query = make_query(served.client)
    query.set_offsets(at(10))
    query.set_offsets(at(11))
    served.reset("g")
    query.set_offsets(at(12))  # ignored: the reset waits for the next pull
    query.set_offsets(at(13))
    ranges = [QueueRange(queue, 13, 14) for queue in QUEUES]
    assert sum(len(rows.batches) for answer in served.client.read("g", ranges, ["body"]) for rows in answer) >= 2
    for offset in (14, 15, 16):
        query.set_offsets(at(offset))
    assert served.client.get_consumer_offsets("g", QUEUES) == dict.fromkeys(QUEUES, 16)
    assert warnings(caplog) == []
    again = make_query(served.client)  # after a restart, from a checkpoint that is one batch behind
    again.set_offsets(at(15))
    again.set_offsets(at(17))
    assert warnings(caplog) == []
