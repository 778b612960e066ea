"""A broker crashes, or comes back without its messages."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

from tests.harness.broker_processes import StartBroker
from tests.harness.spark_queries import Queries, Topic
from tests.harness.waiting import WAIT_S


def test_a_query_survives_a_crash_of_the_broker(
    queries: Queries, topic: Topic, start_broker: StartBroker, extensions: str, tmp_path: Path
) -> None:
    broker = start_broker({"crashing": 2}, data_dir=tmp_path / "data", extensions=extensions)
    crashing = replace(topic, name="crashing", endpoints=broker.endpoints)
    bodies = [b"%02d" % number for number in range(30)]
    crashing.send(*bodies)
    starting = threading.Thread(target=broker.start)

    def crash(batch_id: int) -> None:
        if batch_id == 1:
            broker.kill()
            starting.start()  # the tasks of this batch find it away, and it comes back while they retry

    stream = queries.stream(crashing, consumerGroup="g", maxOffsetsPerTrigger="10", requestTimeoutMs="60000")
    run = queries.run(stream, crash)
    starting.join(WAIT_S)
    assert [len(batch) for batch in run.batches.values()] == [10, 10, 10]
    assert run.bodies == bodies
    assert crashing.committed("g") == crashing.ends()


def test_a_topic_that_lost_its_messages_stops_the_query(
    queries: Queries, topic: Topic, start_broker: StartBroker, extensions: str, tmp_path: Path
) -> None:
    """Acceptance case 22: a lower end."""
    broker = start_broker({"emptied": 1}, data_dir=tmp_path / "data", extensions=extensions)
    emptied = replace(topic, name="emptied", endpoints=broker.endpoints)
    emptied.send(b"one", b"two")
    stream = queries.stream(emptied)
    queries.run(stream)
    broker.data_dir = tmp_path / "other-data"
    broker.restart()
    emptied.send(b"three")
    complaint = {
        "columns": "Topic emptied was deleted and created again: its creation id was",
        "none": "Queue emptied/broker-a/0 ends at offset 1, before offset 2, which is the next one to read",
    }
    with pytest.raises(StreamingQueryException, match=re.escape(complaint[extensions])):
        queries.run(stream)
