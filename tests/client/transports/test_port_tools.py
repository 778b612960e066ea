"""The contract of the port: single messages by key and id, and resets of groups with members."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_client.errors import Unserved
from rmqpull_client.model import LATEST_MS, QueueRange, ResetTarget
from rmqpull_client.transports.port import BrokerClient
from tests.harness.served_broker import ServeBroker
from tests.harness.waiting import wait_until

KEYS = [["a"], ["b", "c"], ["a", "c"], None]


def read(client: BrokerClient, topic: str) -> dict[int, pa.RecordBatch]:
    """Returns each message of a topic by its number."""
    queues = client.query_bounds([topic])[topic].queues
    steps = client.read("readers", [QueueRange(queue, *own) for queue, own in queues.items()], ())
    batches = (batch for step in steps for rows in step for batch in rows.batches)
    rows = (batch.slice(at, 1) for batch in batches for at in range(batch.num_rows))
    return {int(row.column("body")[0].as_py()): row for row in rows}


def test_messages_are_looked_up_as_they_are_read(serve: ServeBroker, extensions: str) -> None:
    batch = pa.record_batch({"body": pa.array([b"%d" % number for number in range(len(KEYS))]), "keys": KEYS})
    client = serve(2, batch).client
    (topic,) = client.query_bounds(["orders"])
    queues = list(client.query_bounds([topic])[topic].queues)
    if extensions in ("none", "columns"):
        with pytest.raises(Unserved, match="keeps no index over gRPC"):
            client.query_messages(queues, "a", None)
        return
    messages = read(client, topic)

    def look_up(key: str | None, msg_id: str | None = None) -> list[pa.RecordBatch]:
        rows = client.query_messages(queues, key, msg_id).rows.values()
        return sorted((found.slice(at, 1) for found in rows for at in range(found.num_rows)), key=number_of)

    wait_until(lambda: len(look_up("a")) == 2, "the broker has indexed the messages")
    assert look_up("a") == [messages[0], messages[2]]
    assert look_up("c") == [messages[1], messages[2]]
    assert look_up("d") == []
    msg_id = messages[3].column("msgId")[0].as_py()
    assert look_up(None, msg_id) == [messages[3]]
    assert look_up("a", msg_id) == []


def number_of(row: pa.RecordBatch) -> int:
    return int(row.column("body")[0].as_py())


def test_a_group_without_members_is_not_reset_by_its_broker(serve: ServeBroker) -> None:
    client = serve(2).client
    queues = list(client.query_bounds(["orders"])["orders"].queues)
    assert client.prepare_reset("nobody", queues, ResetTarget("orders", LATEST_MS)) is None
