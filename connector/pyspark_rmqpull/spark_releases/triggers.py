"""Options that depend on what a source cannot see: its query's trigger."""

from __future__ import annotations

from pyspark_rmqpull.planning.micro_batch import Limits
from pyspark_rmqpull.spark_releases.release import SPARK, SPARK_PASSES_LIMITS
from rmqpull_client.errors import OptionError


def refuse_limits_without_trigger(limits: Limits, trigger: str | None) -> None:
    """Raises OptionError for limits if it is unknown whether a second micro-batch will read the rest."""
    if SPARK_PASSES_LIMITS or trigger is not None or not limits.is_limited:
        return
    raise OptionError(
        f"Limits of a micro-batch (options {', '.join(limits.names)}) need option trigger on {SPARK}, because a source "
        "sees its query's trigger only from PySpark 4.2 on. Set trigger to processingTime for a query that keeps "
        "running, with or without an interval: then each micro-batch keeps the limits. Set it to availableNow or once "
        "for a query with this trigger: then it reads everything in one micro-batch and ignores the limits. A batch "
        "read takes none of these options."
    )
