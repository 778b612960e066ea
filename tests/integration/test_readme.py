"""The examples of the README and of the guides run as they are shown, except for the port and the endless wait.

Runs once: the README starts the broker with all extensions, and publishes in columns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from rmqpull_broker.cli import main
from tests.harness.broker_processes import StartBroker
from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import await_end, process_all

ROOT = Path(__file__).parents[2]
README, READING, WRITING = (
    (ROOT / page).read_text(encoding="utf-8") for page in ("README.md", "docs/reading.md", "docs/writing.md")
)


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


CREATE_TOPICS = re.findall(r"^    rmqpull-broker (topic create departures .*)$", README, re.MULTILINE)
INSERTS = re.findall(r"```sql\n([^`]*INSERT INTO[^`]*)```", WRITING)


def test_what_is_sent_as_shown_is_read_as_shown(
    spark: SparkSession,
    start_broker: StartBroker,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    # The first example for rmqpull-broker, the one for a cluster, the messages, the query, the sink, and a test.
    source, _, send, query, write, *_ = python_blocks(README)
    (tell_lag,) = (block for block in python_blocks(READING) if "LagCollector" in block)
    broker = start_broker({"flights": 8}, extensions="columns,admin,stages")
    names: dict[str, Any] = {"process_all": process_all}
    for block in (send, source, query):
        shown = block.replace("127.0.0.1:8081", broker.endpoints).replace(
            "query.awaitTermination(30)", "process_all(query)"
        )
        exec(shown, names)
    names["REGISTRY"] = CollectorRegistry()  # metrics in the registry of the process would stay
    exec(tell_lag.replace("from prometheus_client import REGISTRY", ""), names)
    spark.streams.removeListener(names["listener"])
    assert names["REGISTRY"].get_sample_value("rmqpull_queues_left_out") == 0
    names["query"].stop()
    assert "queues 8, behind latest 0 (min 0, max 0, avg 0.0), rows lost 0\nsource  queue" in capsys.readouterr().out
    assert sum(progress.numInputRows for progress in names["query"].recentProgress) == 2
    for command in CREATE_TOPICS:
        created = CliRunner().invoke(main, [*command.split(), "--endpoints", broker.endpoints])
        assert created.exit_code == 0, created.output
    write = write.replace("127.0.0.1:8081", broker.endpoints).replace("./departures-checkpoint", str(tmp_path))
    exec(write.replace(".start()", ".trigger(availableNow=True).start()"), names)
    await_end(names["query"])
    written = spark.read.format("rmqpull").options(endpoints=broker.endpoints, topic="departures").load()
    assert sorted(row["tags"] for row in written.collect()) == ["AA", "UA"]
    spark.catalog.dropTempView("departures")


@needs_spark("INSERT without all columns")
def test_a_row_is_inserted_as_shown(spark: SparkSession, start_broker: StartBroker) -> None:
    broker = start_broker({"departures": 4}, extensions="columns,admin,stages")
    (insert,) = INSERTS
    for statement in insert.replace("127.0.0.1:8081", broker.endpoints).split(";"):
        spark.sql(statement)
    assert spark.sql("SELECT body FROM departures WHERE tags IS NULL").collect() == [(b"UA1545",)]
    spark.catalog.dropTempView("departures")
