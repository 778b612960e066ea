"""Options that say how much a micro-batch takes, and that they fit together."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.options.declaration import Mode, Option, duration_ms, integer, size_in_bytes
from pyspark_rmqpull.planning.admission import INT64_MAX, Limits
from rmqpull_client.errors import OptionError

DELAY_MS_MAX = 365 * 24 * 60 * 60 * 1000

ADMISSION_OPTIONS = (
    Option(
        "maxOffsetsPerTrigger",
        None,
        "messages",
        "About how many messages a micro-batch takes, shared among queues in proportion to what waits in them, rounded "
        "down, but at least one from each queue that has any.",
        integer(1, INT64_MAX),  # Spark hands the limit through a Java long
        only=Mode.STREAM,
    ),
    Option(
        "minOffsetsPerTrigger",
        None,
        "messages",
        "How many messages must wait before a micro-batch runs, unless `maxTriggerDelay` is over. The first one after "
        "a start runs at once, and `AvailableNow` reads everything.",
        integer(1, INT64_MAX),
        only=Mode.STREAM,
    ),
    Option(
        "maxTriggerDelay",
        "15m",
        "duration",
        "How long after the last micro-batch that had messages the next one runs, though fewer than "
        "`minOffsetsPerTrigger` wait: as `15m`, `5s`, or a number of milliseconds.",
        duration_ms(1, DELAY_MS_MAX),
        only=Mode.STREAM,
    ),
    Option(
        "maxBytesPerTrigger",
        None,
        "bytes",
        "How many bytes (of bodies, tags, keys and properties) a micro-batch takes at most, as `64m` or a number, "
        "shared among queues in proportion to the bytes that wait in them. A message above goes alone. Needs a server "
        "with the columnar extension.",
        size_in_bytes(1, INT64_MAX),
        only=Mode.STREAM,
    ),
)


def refuse_limits(given: Mapping[str, str], limits: Limits) -> None:
    """Checks limits against each other; ``given`` has the names of options in lower case. Raises OptionError."""
    low, high = limits.rows_min, limits.rows_max
    if low is not None and high is not None and low > high:
        raise OptionError(
            f"Option minOffsetsPerTrigger is {low}, more than maxOffsetsPerTrigger, which is {high}: "
            "no micro-batch could be both. Lower the one or raise the other."
        )
    if low is None and "maxtriggerdelay" in given:
        raise OptionError(
            "Option maxTriggerDelay says how long to wait for minOffsetsPerTrigger, which is missing. "
            "Set it, or remove maxTriggerDelay."
        )
