"""Tests that write run against brokers of all three kinds in this process, and against Apache RocketMQ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rmqpull_broker.testing import Topics
from tests.harness.server_kinds import WRITING, make_params
from tests.harness.servers import StartServer
from tests.harness.spark_sink import ServeSink, SinkHarness


@pytest.fixture(params=make_params(WRITING))
def kind(request: pytest.FixtureRequest) -> str:
    """Tests that write are run against every kind of server, unless they say otherwise."""
    return str(request.param)


@pytest.fixture
def serve(spark: SparkSession, start_server: StartServer, tmp_path: Path) -> Iterator[ServeSink]:
    """Serves topics until the test ends."""

    def start(topics: Topics | None = None, **given: Any) -> SinkHarness:
        return SinkHarness(spark, start_server(topics or {"orders": 1}, **given), tmp_path / "checkpoint")

    yield start
    for query in spark.streams.active:
        query.stop()
