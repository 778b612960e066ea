"""Runs the query of docs/from-kafka.md unchanged, except for the address and the folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from rmqpull_broker.core.model import Message
from tests.harness.servers import StartServer
from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import await_end

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

GUIDE = Path(__file__).parents[2] / "docs" / "from-kafka.md"


@needs_spark("AvailableNow within limits")
def test_the_query_that_came_from_kafka(spark: SparkSession, start_server: StartServer, tmp_path: Path) -> None:
    (shown,) = [
        block for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL) if "rmqpull" in block
    ]
    server = start_server({"orders": 4})
    server.send(
        "orders",
        Message(b"one", "", tags="paid", keys=("ann",)),
        Message(b"two", "", tags="sent", keys=("ben",)),
        Message(b"three", "", tags="paid"),
    )
    names: dict[str, Any] = {"spark": spark}
    here = f".options(**{server.options!r})"
    exec(shown.replace('.option("endpoints", "127.0.0.1:8081")', here).replace('"/data/', f'"{tmp_path}/'), names)
    query: StreamingQuery = names["query"]
    await_end(query)
    assert sum(server.consumer_offsets("billing", "orders").values()) == 3
    rows = spark.read.parquet(f"{tmp_path}/paid").collect()
    assert sorted((row["text"], row["customer"]) for row in rows) == [("one", "ann"), ("three", None)]
