"""Options that say how much a micro-batch takes, how long it waits for messages, and how messages are pulled."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqpull.options.declaration import Mode, option
from pyspark_rmqpull.options.parsers import duration_ms, integer, one_of, size_in_bytes
from pyspark_rmqpull.planning.micro_batch import INT64_MAX, Limits

DELAY_MS_MAX = 365 * 24 * 60 * 60 * 1000
PROCESSING_TIME = "processingTime"
"""The value of option trigger with which a source of PySpark 4.0 and 4.1 applies limits."""


@dataclass(frozen=True, kw_only=True)
class MicroBatchOptions:
    """The options that become the :class:`Limits` of a micro-batch."""

    max_offsets_per_trigger: int | None = option(
        integer(1, INT64_MAX),  # Spark hands the limit through a Java long
        unit="messages",
        doc="Approximate maximum number of messages of a micro-batch. Queues share the limit in proportion to their "
        "backlog, and each queue with a backlog gets at least one message. Default: no limit.",
        only=Mode.STREAM,
    )
    min_offsets_per_trigger: int | None = option(
        integer(1, INT64_MAX),
        unit="messages",
        doc="Delays a micro-batch until this many messages are available or `maxTriggerDelay` has passed. The first "
        "micro-batch after a start runs at once, and `AvailableNow` ignores this option. Default: no delay.",
        only=Mode.STREAM,
    )
    max_trigger_delay: int = option(
        duration_ms(1, DELAY_MS_MAX),
        unit="duration",
        doc="Longest delay that `minOffsetsPerTrigger` may cause, counted from the last micro-batch that had messages: "
        "`15m`, `5s`, or a number of milliseconds.",
        default="15m",
        only=Mode.STREAM,
    )
    max_bytes_per_trigger: int | None = option(
        size_in_bytes(1, INT64_MAX),
        unit="bytes",
        doc="Maximum size of a micro-batch in bytes of bodies, tags, keys and properties, such as `64m`. Queues share "
        "the limit in proportion to their backlog in bytes. A message above the limit is read alone. Needs a server "
        "with the columnar extension, so it cannot be used with `nameServers`. Default: no limit.",
        only=Mode.STREAM,
    )

    trigger: str | None = option(
        one_of(PROCESSING_TIME, "availableNow", "once"),
        unit="name",
        doc="The query's trigger, which a source cannot see on PySpark 4.0 and 4.1. Required there with "
        "`maxOffsetsPerTrigger`, `minOffsetsPerTrigger` or `maxBytesPerTrigger`: with `processingTime` the limits "
        "apply to each micro-batch; with `availableNow` and `once` they are ignored, because Spark runs these triggers "
        "as one micro-batch. It has no effect on PySpark 4.2 and newer.",
        only=Mode.STREAM,
    )

    @property
    def limits(self) -> Limits:
        """How much a micro-batch takes."""
        return Limits(
            self.max_offsets_per_trigger,
            self.min_offsets_per_trigger,
            self.max_trigger_delay,
            self.max_bytes_per_trigger,
        )
