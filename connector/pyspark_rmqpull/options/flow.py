"""Options of pulling: how much is under way, and how long is waited."""

from __future__ import annotations

from pyspark_rmqpull.options.declaration import Mode, Option, integer

FLOW_OPTIONS = (
    Option(
        "idleWaitMs",
        "500",
        "ms",
        "How long a query that is idle, or gathers `minOffsetsPerTrigger`, waits on the broker before Spark asks "
        "again. It holds up the query's other sources as long. With 0 it never waits: give it a trigger with an "
        "interval then, or the broker is asked every 10 ms (`spark.sql.streaming.pollingDelay`).",
        integer(0, 60_000),
        only=Mode.STREAM,
    ),
    Option(
        "longPollingTimeoutMs",
        "20000",
        "ms",
        "How long the broker may park one pull of an idle query, for proxies that end calls which are silent for long: "
        "an `idleWaitMs` above it is waited in several pulls. Tasks never wait: what they pull is there.",
        integer(100, 60_000),
        only=Mode.STREAM,
    ),
    Option(
        "pullBatchSize",
        "32",
        "messages",
        "Messages per pull on a server without the columnar extension; others answer with up to 16,384 or 8 MiB.",
        integer(1, 1024),
    ),
    Option(
        "pullThresholdForQueue",
        "1000",
        "messages",
        "On a server without the columnar extension: a queue of which more messages are pulled than Spark has taken is "
        "not pulled further for now.",
        integer(1, 65_535),
    ),
    Option(
        "pullThresholdSizeForQueue",
        "100",
        "MiB",
        "The same by the size of the queue's bodies.",
        integer(1, 1024),
    ),
    Option(
        "pullThresholdSizeForTopic",
        "64",
        "MiB",
        "How much a task may have under way and pulled ahead of Spark, over all its queues; one message always. "
        "In RocketMQ it has no limit by default.",
        integer(1, 102_400),
    ),
)
