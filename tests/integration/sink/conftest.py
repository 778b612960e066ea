"""Tests that write run against brokers of all three kinds, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rmqpull_broker.testing import Topics, running_broker
from tests.harness.spark_sink import ServeSink, SinkHarness

KINDS = ["columns,admin,stages", "columns,admin", "none"]


@pytest.fixture(params=KINDS)
def extensions(request: pytest.FixtureRequest) -> str:
    """Tests that write are run against every kind of server, unless they say otherwise."""
    return str(request.param)


@pytest.fixture
def serve(spark: SparkSession, extensions: str, tmp_path: Path) -> Iterator[ServeSink]:
    """Serves topics until the test ends."""
    with ExitStack() as stack:

        def start(topics: Topics | None = None, **given: Any) -> SinkHarness:
            broker = stack.enter_context(running_broker(topics or {"orders": 1}, extensions=extensions, **given))
            return SinkHarness(spark, broker, tmp_path / "checkpoint")

        yield start
        for query in spark.streams.active:
            query.stop()
