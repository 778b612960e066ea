"""Options that say how much a micro-batch takes."""

from __future__ import annotations

from pyspark_rmqpull.option import Mode, Option, integer

ADMISSION_OPTIONS = (
    Option(
        "maxOffsetsPerTrigger",
        None,
        "messages",
        "About how many messages a micro-batch takes, shared among queues in proportion to what waits in them, rounded "
        "down, but at least one from each queue that has any.",
        integer(1, 2**63 - 1),  # Spark hands the limit through a Java long
        only=Mode.STREAM,
    ),
)
