"""Spark's asynchronous progress tracking, which keeps offsets in the checkpoint only now and then."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming.query import StreamingQuery

from tests.harness.spark_queries import Queries, Topic


def test_nothing_is_lost_over_a_restart_that_goes_back_to_an_older_offset(
    queries: Queries, topic: Topic, tmp_path: Path
) -> None:
    """Acceptance case 40: with a sink of the JVM's, here the one of ``foreach``."""
    given = tmp_path / "given"
    given.mkdir()
    sent = [f"{number:02d}" for number in range(12)]

    def keep(row: Row) -> None:
        with (given / row["body"]).open("a") as file:
            file.write(".")

    def start() -> StreamingQuery:
        stream = queries.stream(topic, maxOffsetsPerTrigger="3", consumerGroup="g")
        writer = stream.selectExpr("CAST(body AS STRING) AS body").writeStream.foreach(keep)
        # Longer than the test: only the first batch comes into the checkpoint.
        writer = writer.option("asyncProgressTrackingEnabled", "true")
        writer = writer.option("asyncProgressTrackingCheckpointIntervalMs", "3600000")
        return writer.option("checkpointLocation", str(queries.checkpoint)).start()

    topic.send(*(body.encode() for body in sent[:9]))
    first = start()
    first.processAllAvailable()
    first.stop()
    assert sorted(file.name for file in (queries.checkpoint / "offsets").iterdir() if file.name.isdigit()) == ["0"]
    # The group follows the batches that are done, and is ahead of the checkpoint, which has the first one alone.
    assert topic.committed("g") == topic.ends() == {0: 3, 1: 3, 2: 3}
    logged = json.loads((queries.checkpoint / "offsets" / "0").read_text().splitlines()[-1])
    assert logged["offsets"][topic.name]["broker-a"] == {"0": 1, "1": 1, "2": 1}
    topic.send(*(body.encode() for body in sent[9:]))
    second = start()
    second.processAllAvailable()
    second.stop()

    times = {file.name: len(file.read_text()) for file in given.iterdir()}
    assert sorted(times) == sent
    # The first batch, of the checkpoint, came once; the rest of the first run came again; what is new, once.
    assert sorted(times.values()) == [1] * 6 + [2] * 6
    assert topic.committed("g") == topic.ends()
