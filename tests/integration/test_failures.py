"""A broker crashes, or comes back without its messages."""

from __future__ import annotations

import re
import threading

import pytest
from pyspark.errors import StreamingQueryException

from tests.harness.server_kinds import COLUMNS
from tests.harness.servers import StartCrashingServer
from tests.harness.spark_queries import Queries, Topic
from tests.harness.waiting import WAIT_S


def test_a_query_survives_a_crash_of_the_broker(queries: Queries, start_crashing: StartCrashingServer) -> None:
    server = start_crashing({"crashing": 2})
    crashing = Topic("crashing", server)
    bodies = [b"%02d" % number for number in range(30)]
    crashing.send(*bodies)
    starting = threading.Thread(target=server.start)

    def crash(batch_id: int) -> None:
        if batch_id == 1:
            server.kill()
            starting.start()  # the tasks of this batch find it away, and it comes back while they retry

    stream = queries.stream(crashing, consumerGroup="g", maxOffsetsPerTrigger="10", requestTimeoutMs="60000")
    run = queries.run(stream, crash)
    starting.join(WAIT_S)
    assert [len(batch) for batch in run.batches.values()] == [10, 10, 10]
    assert run.bodies == bodies
    assert crashing.committed("g") == crashing.ends()


def test_a_topic_that_lost_its_messages_stops_the_query(
    queries: Queries, start_crashing: StartCrashingServer, kind: str
) -> None:
    """Acceptance case 22: a lower end."""
    server = start_crashing({"emptied": 1})
    emptied = Topic("emptied", server)
    emptied.send(b"one", b"two")
    stream = queries.stream(emptied)
    queries.run(stream)
    server.kill()
    server.start_empty()
    emptied.send(b"three")
    complaint = (
        "Topic emptied was deleted and created again: its creation id was"
        if kind == COLUMNS
        else "Queue emptied/broker-a/0 ends at offset 1, before offset 2, which is the next one to read"
    )
    with pytest.raises(StreamingQueryException, match=re.escape(complaint)):
        queries.run(stream)
