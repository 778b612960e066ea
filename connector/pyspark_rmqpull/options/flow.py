"""The options that limit pulls, and how long an idle query waits."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqpull.options.declaration import Mode, option, option_of
from pyspark_rmqpull.options.parsers import integer
from rmqpull_client import flow as client
from rmqpull_client.flow import Flow


@dataclass(frozen=True, kw_only=True)
class FlowOptions:
    """The options that become the :class:`Flow` of pulls, and ``idleWaitMs`` for the reader of a stream."""

    idle_wait_ms: int = option(
        integer(0, 60_000),
        unit="ms",
        doc="How long an idle query, or one that waits for `minOffsetsPerTrigger`, waits on the broker for messages "
        "before Spark plans again. Other sources of the same query wait as long. With 0 it never waits: then set a "
        "trigger interval, or the query asks the broker every 10 ms (`spark.sql.streaming.pollingDelay`).",
        default="500",
        only=Mode.STREAM,
    )
    long_polling_timeout_ms: int = option_of(
        client.LONG_POLLING_TIMEOUT_MS,
        integer(100, 60_000),
        more="A longer `idleWaitMs` takes several pulls. Tasks never wait: their messages are already there.",
        only=Mode.STREAM,
    )
    pull_batch_size: int = option_of(client.PULL_BATCH_SIZE, integer(1, 1024))
    pull_threshold_for_queue: int | None = option_of(client.PULL_THRESHOLD_FOR_QUEUE, integer(1, 65_535))
    pull_threshold_size_for_queue: int = option_of(client.PULL_THRESHOLD_SIZE_FOR_QUEUE, integer(1, 1024))
    pull_threshold_size_for_topic: int = option_of(client.PULL_THRESHOLD_SIZE_FOR_TOPIC, integer(1, 102_400))

    @property
    def flow(self) -> Flow:
        """How messages are pulled."""
        return Flow(
            pull_batch_size=self.pull_batch_size,
            pull_threshold_for_queue=self.pull_threshold_for_queue,
            pull_threshold_size_for_queue=self.pull_threshold_size_for_queue,
            pull_threshold_size_for_topic=self.pull_threshold_size_for_topic,
            long_polling_timeout_ms=self.long_polling_timeout_ms,
        )
