"""The README's Python is run as it stands, but for the port and for waiting without an end.

Runs once: the README starts the broker with all that it offers, and sends in columns.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from prometheus_client import CollectorRegistry
from pyspark.sql import SparkSession

from rmqpull_broker.cli import main

if TYPE_CHECKING:
    from tests.conftest import StartBroker

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
CREATE_TOPICS = re.findall(r"^    rmqpull-broker (topic create departures .*)$", README, re.MULTILINE)
INSERTS = re.findall(r"```sql\n([^`]*INSERT INTO[^`]*)```", README)


def test_what_is_sent_as_shown_is_read_as_shown(
    spark: SparkSession,
    start_broker: StartBroker,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    send, read, _, tell_lag, write, _ = BLOCKS
    broker = start_broker({"flights": 8}, extensions="columns,admin,stages")
    names: dict[str, Any] = {}
    for block in (send, read):
        shown = block.replace("127.0.0.1:8081", broker.endpoints).replace("awaitTermination", "processAllAvailable")
        exec(shown, names)
    names["REGISTRY"] = CollectorRegistry()  # the process's own would keep what is shown here
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
    names["query"].awaitTermination()
    written = spark.read.format("rmqpull").options(endpoints=broker.endpoints, topic="departures").load()
    assert sorted(row["tags"] for row in written.collect()) == ["AA", "UA"]
    spark.catalog.dropTempView("departures")
    (insert,) = INSERTS
    for statement in insert.replace("127.0.0.1:8081", broker.endpoints).split(";"):
        spark.sql(statement)
    assert spark.sql("SELECT body FROM departures WHERE tags IS NULL").collect() == [(b"UA1545",)]
