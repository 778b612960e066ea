"""The contract of the port: which consumer groups there are, and how far they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_client.errors import OptionError
from rmqpull_client.model import GroupProgress, MessageQueue
from tests.harness.served_broker import ServeBroker

GROUP = "behind"


def test_groups_and_their_progress_are_listed(serve: ServeBroker, extensions: str) -> None:
    batch = pa.record_batch({"body": pa.array([b"%d" % number for number in range(10)])})
    client = serve(2, batch).client
    (topic,) = client.query_bounds(["orders"])
    queues = client.query_bounds([topic])[topic].queues
    client.set_consumer_offsets(GROUP, dict.fromkeys(queues, 1))
    if extensions in ("none", "columns"):  # the fixture serves no administration with columns
        with pytest.raises(OptionError, match="cannot list its consumer groups: it lacks AdminService"):
            client.list_groups()
        with pytest.raises(OptionError, match="cannot tell what consumer groups consume: it lacks AdminService"):
            client.query_progress([GROUP])
        return
    assert GROUP in client.list_groups()
    found = client.query_progress([GROUP, "unknown"])
    assert [entry._replace(consumed_ms=0) for entry in found if entry.queue.topic == topic] == [
        GroupProgress(GROUP, queue, 1, own.max_offset) for queue, own in sorted(queues.items())
    ]
    assert {entry.group for entry in found} == {GROUP}
    assert all(isinstance(entry.queue, MessageQueue) for entry in found)


def test_no_groups_have_no_progress(serve: ServeBroker) -> None:
    assert serve().client.query_progress([]) == []
