"""Spark's asynchronous progress tracking writes only some offsets into the checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from pyspark.sql import Row
from pyspark.sql.streaming.query import StreamingQuery

from tests.harness.spark_queries import Queries, Topic, process_all


def test_a_restart_from_an_older_offset_loses_nothing(queries: Queries, topic: Topic, tmp_path: Path) -> None:
    """Acceptance case 40, with a sink of the JVM: the one of ``foreach``."""
    given = tmp_path / "given"
    given.mkdir()
    sent = [f"{number:02d}" for number in range(12)]

    def keep(row: Row) -> None:
        with (given / row["body"]).open("a") as file:
            file.write(".")

    def start() -> StreamingQuery:
        stream = queries.stream(topic, maxOffsetsPerTrigger="3", consumerGroup="g")
        writer = stream.selectExpr("CAST(body AS STRING) AS body").writeStream.foreach(keep)
        # Longer than the test, so the checkpoint gets only the first batch.
        writer = writer.option("asyncProgressTrackingEnabled", "true")
        writer = writer.option("asyncProgressTrackingCheckpointIntervalMs", "3600000")
        # The list of PySpark 4.0 and 4.1 has only noop, console and memory.
        writer = writer.option("_asyncProgressTrackingOverrideSinkSupportCheck", "true")
        return writer.option("checkpointLocation", str(queries.checkpoint)).start()

    topic.send(*(body.encode() for body in sent[:9]))
    first = start()
    process_all(first)
    first.stop()
    assert sorted(file.name for file in (queries.checkpoint / "offsets").iterdir() if file.name.isdigit()) == ["0"]
    # The group follows the finished batches, and is ahead of the checkpoint, which has only the first one.
    assert topic.committed("g") == topic.ends() == {0: 3, 1: 3, 2: 3}
    logged = json.loads((queries.checkpoint / "offsets" / "0").read_text().splitlines()[-1])
    assert logged["offsets"][topic.name]["broker-a"] == {"0": 1, "1": 1, "2": 1}
    topic.send(*(body.encode() for body in sent[9:]))
    second = start()
    process_all(second)
    second.stop()

    times = {file.name: len(file.read_text()) for file in given.iterdir()}
    assert sorted(times) == sent
    # The rows of the first batch and the new ones came once, the rest of the first run twice.
    assert sorted(times.values()) == [1] * 6 + [2] * 6
    assert topic.committed("g") == topic.ends()
