"""What a release of Spark cannot do for a test, and why; and how a test does the same there.

A test that needs more than every release has says so: ``@needs_spark("AvailableNow within limits")``. Every other test
is the same on all releases. :func:`for_this_spark` adds what queries need on older ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyspark
import pytest

from pyspark_rmqpull.spark_releases.release import SPARK_PASSES_LIMITS

RELEASE = ".".join(pyspark.__version__.split(".")[:2])
"""The release that runs the tests, such as 4.1."""

NEWER = "4.2 and newer"
_ONE_BATCH = "refused: a limit needs option trigger, and AvailableNow is one micro-batch"
_WITHIN_LIMITS = "it tells the source its start, its limit and AvailableNow"
_UNIONS = "it plans each side of a union again"
_INSERTS = "its INSERT needs a value for each column of the view"
LACKS: dict[str, dict[str, str]] = {
    "AvailableNow within limits": {"4.0": _ONE_BATCH, "4.1": _ONE_BATCH},
    "AvailableNow as one micro-batch": {NEWER: _WITHIN_LIMITS},
    "a union that is planned once": {"4.0": _UNIONS},
    "INSERT without all columns": {"4.0": _INSERTS},
}
"""Why a release cannot do it, by what a test needs."""

_LIMITS = {"maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxBytesPerTrigger"}


def needs_spark(*abilities: str) -> pytest.MarkDecorator:
    """Marks tests that only run on releases of Spark with these abilities."""
    assert set(abilities) <= LACKS.keys(), f"{abilities} are not in the table of abilities"
    return pytest.mark.needs_spark(*abilities)


def leave_out(items: Sequence[pytest.Item]) -> None:
    """Skips tests that this release of Spark cannot run, so that the end of a run tells why."""
    for item in items:
        needed = [ability for mark in item.iter_markers("needs_spark") for ability in mark.args]
        names = [RELEASE, NEWER] if SPARK_PASSES_LIMITS else [RELEASE]
        reasons = [LACKS[ability][name] for ability in needed for name in names if name in LACKS[ability]]
        if reasons:
            item.add_marker(pytest.mark.skip(reason=f"not on PySpark {RELEASE}: {reasons[0]}"))


def for_this_spark(options: dict[str, str]) -> dict[str, str]:
    """Returns the options of a stream that this Spark runs again and again, with what it needs besides."""
    if SPARK_PASSES_LIMITS:
        return options
    needed = {"trigger": "processingTime"} if options.keys() & _LIMITS else {}
    # Where AvailableNow is one micro-batch, tests run queries until they are idle.
    return {"idleWaitMs": "50"} | needed | options
