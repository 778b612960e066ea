"""After a checkpoint was restored or copied, the broker recognizes micro-batches that it has, and refuses others."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from tests.harness.server_kinds import needs
from tests.harness.spark_queries import await_end
from tests.harness.spark_sink import ServeSink, SinkHarness

pytestmark = needs("stages")
TOPICS = {"orders": 1, "copies": 1, "others": 1}


@pytest.fixture
def sink(serve: ServeSink) -> SinkHarness:
    return serve(TOPICS)


def copy_rows(sink: SinkHarness, *bodies: bytes, topic: str = "copies", **options: str) -> None:
    """Sends orders, and runs a query that copies them, at most two in each micro-batch."""
    sink.server.send("orders", *bodies)
    sink.run(sink.stream("orders", maxOffsetsPerTrigger="2").select("body"), topic=topic, **options)


def copy_checkpoint(sink: SinkHarness, name: str) -> SinkHarness:
    """The same sink with a copy of the checkpoint."""
    copy = sink.checkpoint.with_name(name)
    shutil.copytree(sink.checkpoint, copy)
    return replace(sink, checkpoint=copy)


def remove_commit(sink: SinkHarness, batch_id: int) -> None:
    """Makes the checkpoint look as after a kill between the broker's commit and Spark's."""
    for name in (str(batch_id), f".{batch_id}.crc"):
        (sink.checkpoint / "commits" / name).unlink()


def test_a_restored_checkpoint_never_loses_rows_silently(sink: SinkHarness) -> None:
    """It may be one micro-batch old or several. The newest checkpoint can still be used."""
    copy_rows(sink, b"0")
    oldest = copy_checkpoint(sink, "oldest")
    copy_rows(sink, *(b"%d" % number for number in range(1, 9)))
    newest = copy_checkpoint(sink, "newest")
    copy_rows(sink, b"A")
    written = [*(b"%d" % number for number in range(9)), b"A"]
    for backup, seen in (
        (newest, "it was planned again, and the number of rows differs"),
        (oldest, "is older than batch 5"),
    ):
        with pytest.raises(
            Exception, match=rf"(?s)CheckpointConflict.*{seen}.*Nothing of this micro-batch was written.*producerGroup"
        ):
            copy_rows(backup, b"B")
        assert sink.server.broker.look(lambda state: list(state.stages.all())) == []
    assert sink.bodies("copies") == written
    copy_rows(sink, b"C")
    assert sink.bodies("copies") == [*written, b"B", b"B", b"C"]


def test_a_restored_checkpoint_without_new_rows_continues(sink: SinkHarness) -> None:
    """The micro-batch is planned again, with the same rows."""
    copy_rows(sink, b"0")
    backup = copy_checkpoint(sink, "backup")
    copy_rows(sink, b"1", b"2")
    copy_rows(backup)
    copy_rows(backup, b"3")
    assert sink.bodies("copies") == [b"0", b"1", b"2", b"3"]


def test_a_copied_checkpoint_that_writes_to_another_topic_is_refused(sink: SinkHarness) -> None:
    copy_rows(sink, b"0")
    backup = copy_checkpoint(sink, "copy")
    copy_rows(sink, b"1")
    with pytest.raises(
        Exception,
        match=r"(?s)the topics differ\. Nothing of this micro-batch was written.*\n1\. If the newest micro-batch",
    ):
        copy_rows(backup, topic="others")
    remove_commit(sink, 1)
    with pytest.raises(Exception, match=r"CheckpointConflict.*copies.*others"):  # even with the same plan
        copy_rows(sink, topic="others")
    assert (sink.bodies("copies"), sink.bodies("others")) == ([b"0", b"1"], [])
    copy_rows(backup, topic="others", producerGroup="another")
    copy_rows(backup, b"2", topic="others", producerGroup="another")
    assert (sink.bodies("copies"), sink.bodies("others")) == ([b"0", b"1"], [b"1", b"2"])


def with_random_rows(sink: SinkHarness) -> DataFrame:
    return sink.stream("orders").selectExpr("CONCAT(body, rand()) AS body")


def test_a_micro_batch_that_the_broker_has_committed_counts_as_written(sink: SinkHarness) -> None:
    """The broker recognizes it by its plan, even if its rows differ each time."""
    sink.server.send("orders", b"1", b"2")
    sink.server.broker.faults.fail("CommitStages", "FORBIDDEN", times=1, after=True)
    with pytest.raises(Exception, match="FORBIDDEN"):
        sink.run(with_random_rows(sink), topic="copies")
    written = sink.bodies("copies")
    assert len(written) == 2
    sink.run(with_random_rows(sink), topic="copies")
    assert sink.bodies("copies") == written


def test_without_a_readable_checkpoint_only_the_rows_are_compared(sink: SinkHarness, tmp_path: Path) -> None:
    """A setting of the session names the folder of the checkpoints, and the sink does not see it."""
    sink.spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path / "all"))
    unseen = replace(sink, checkpoint=tmp_path / "all" / "copier")
    try:
        for rows, is_same in ((sink.stream("orders").select("body"), True), (with_random_rows(sink), False)):
            topic = "copies" if is_same else "others"
            sink.server.send("orders", b"1")
            run_unseen(sink, rows, topic)
            written = sink.bodies(topic)
            remove_commit(unseen, 0)
            if is_same:
                run_unseen(sink, rows, topic)
            else:
                with pytest.raises(Exception, match=r"CheckpointConflict.*plan of the batch is not known"):
                    run_unseen(sink, rows, topic)
            assert sink.bodies(topic) == written
            shutil.rmtree(unseen.checkpoint)
    finally:
        sink.spark.conf.unset("spark.sql.streaming.checkpointLocation")


def run_unseen(sink: SinkHarness, rows: DataFrame, topic: str) -> None:
    options = {**sink.server.options, "topic": topic}
    writer = rows.writeStream.format("rmqpull").options(**options).queryName("copier")
    await_end(writer.trigger(availableNow=True).start())


def test_a_broker_that_lacks_earlier_micro_batches_warns_or_ends_the_query(
    sink: SinkHarness,
) -> None:
    """To the broker, another producer group is another query, as when its data is older than the checkpoint."""
    copy_rows(sink, b"0", b"1", b"2", b"3")
    with pytest.raises(Exception, match=r"(?s)CommitGap.*never committed micro-batches 0 to 1 of another/"):
        copy_rows(sink, b"4", producerGroup="another", onCommitGap="fail")
    assert sink.server.broker.look(lambda state: list(state.stages.all())) == []
    assert sink.bodies("copies") == [b"0", b"1", b"2", b"3"]
    copy_rows(sink, producerGroup="another")
    copy_rows(sink, b"5", producerGroup="another", onCommitGap="fail")
    assert sink.bodies("copies") == [b"0", b"1", b"2", b"3", b"4", b"5"]
