"""Writes through TLS and signatures, with files that tasks read for themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.harness.secured_servers import GROUP, StartSecured
from tests.harness.server_kinds import needs
from tests.harness.spark_sink import SinkHarness


@needs("TLS and keys")
def test_a_write_and_a_stream_are_signed_and_encrypted(
    spark: SparkSession, start_secured: StartSecured, tmp_path: Path
) -> None:
    secured = start_secured({"orders": 2, "copies": 1})
    sink, options = SinkHarness(spark, secured.server, tmp_path / "checkpoint"), secured.options

    sink.write(sink.rows("body STRING", ("1",), ("2",)), topic="orders", **options)
    sink.run(sink.stream("orders", consumerGroup=GROUP, **options), topic="copies", **options)
    assert sorted(sink.bodies("copies")) == [b"1", b"2"]

    wrong = options | {"secretKey": "wr0ngOfTheTests"}
    with pytest.raises(PySparkException, match=r"[Cc]heck signature failed") as refused:
        sink.write(sink.rows("body STRING", ("3",)), topic="orders", **wrong)
    assert "wr0ngOfTheTests" not in str(refused.value)
    assert len(sink.bodies("orders")) == 2
