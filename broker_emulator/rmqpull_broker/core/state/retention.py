"""What is old enough to go: segments of the commit log, by time (fileReservedTime) and by size (retentionBytes).

As in Apache's broker, whole segments go, and never the one that is being written (rules 3.2.1: a consumer
behind what is left is answered OFFSET_TOO_SMALL with the min offset). What still waits in them is stored again first:
see ``trimming``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rmqpull_broker.core.properties import BrokerProperties

_HOUR_MS = 3_600_000


class ClosedSegment(NamedTuple):
    """A segment by its log positions, and the newest store time of the messages in it and before it."""

    base: int
    end: int
    newest_store_ms: int


class RetentionLimits(NamedTuple):
    """How long messages are kept at least, in milliseconds, and how many bytes of log at most; None for any number."""

    reserved_ms: int
    log_bytes_max: int | None = None

    def is_expired(self, newest_store_ms: int, now_ms: int) -> bool:
        """Whether nothing that was stored until then needs to be kept."""
        return newest_store_ms + self.reserved_ms < now_ms


def limits_of(properties: BrokerProperties) -> RetentionLimits:
    """What the broker's properties say."""
    return RetentionLimits(properties.file_reserved_time * _HOUR_MS, properties.retention_bytes or None)


def kept_from(closed: Sequence[ClosedSegment], log_end: int, limits: RetentionLimits, now_ms: int) -> int | None:
    """The log position before which everything may go; None when nothing may.

    ``closed`` are the closed segments, oldest first; ``log_end`` is where the log ends.
    """
    position = None
    for segment in closed:
        is_too_much = limits.log_bytes_max is not None and log_end - segment.base > limits.log_bytes_max
        if not is_too_much and not limits.is_expired(segment.newest_store_ms, now_ms):
            break
        position = segment.end
    return position
