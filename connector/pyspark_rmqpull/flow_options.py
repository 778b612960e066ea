"""Options of pulling: how much is under way, and how long is waited."""

from __future__ import annotations

from pyspark_rmqpull.option import Mode, Option, integer

FLOW_OPTIONS = (
    Option(
        "idleWaitMs",
        "500",
        "ms",
        "How long an idle query waits on the broker for news before Spark asks again; 0 never waits. "
        "It holds up the query's other sources as long.",
        integer(0, 60_000),
        only=Mode.STREAM,
    ),
    Option(
        "pullBatchSize",
        "32",
        "messages",
        "Messages per pull on a server without the columnar extension; others are read in batches of 10,000.",
        integer(1, 1024),
    ),
)
