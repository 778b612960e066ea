"""Runs the query of docs/from-kafka.md unchanged, except for the address and the folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

from rmqpull_broker.core.model import Message
from rmqpull_broker.testing import running_broker

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

GUIDE = Path(__file__).parents[2] / "docs" / "from-kafka.md"


def test_the_query_that_came_from_kafka(spark: SparkSession, extensions: str, tmp_path: Path) -> None:
    (shown,) = [
        block for block in re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL) if "rmqpull" in block
    ]
    with running_broker({"orders": 4}, extensions=extensions) as broker:
        broker.send(
            "orders",
            Message(b"one", "", tags="paid", keys=("ann",)),
            Message(b"two", "", tags="sent", keys=("ben",)),
            Message(b"three", "", tags="paid"),
        )
        names: dict[str, Any] = {"spark": spark}
        exec(shown.replace("127.0.0.1:8081", broker.endpoints).replace('"/data/', f'"{tmp_path}/'), names)
        query: StreamingQuery = names["query"]
        query.awaitTermination()
        assert sum(broker.consumer_offsets("billing", "orders").values()) == 3
    rows = spark.read.parquet(f"{tmp_path}/paid").collect()
    assert sorted((row["text"], row["customer"]) for row in rows) == [("one", "ann"), ("three", None)]
