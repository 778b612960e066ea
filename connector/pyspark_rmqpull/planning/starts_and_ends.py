"""Where a new query starts and where a batch read ends: offset specs become offsets once the queues are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark_rmqpull.planning.offset_specs import (
    EARLIEST,
    GROUP,
    LATEST,
    AtTime,
    OffsetSpec,
    RankedSpecs,
    describe_scope,
    refuse_out_of_bounds,
)
from rmqpull_client.errors import OptionError
from rmqpull_client.loss import OnLoss, find_loss, refuse_loss
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.transports.port import OffsetLookUp
from rmqpull_proto.names import RETRY_PREFIX

CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
CONSUME_TIMESTAMP_AGO_MS = 30 * 60 * 1000
"""How far back a new group starts when ``consumeTimestamp`` is not set (rules 1.2.1)."""


@dataclass(frozen=True)
class StartRules:
    """Everything that the options say about the start of a query.

    With ``is_match_needed``, a start by time fails on a queue that has no message stored at that time or later.
    """

    specs: RankedSpecs
    group: str | None = None
    consume_from_where: str = CONSUME_FROM_LAST_OFFSET
    consume_timestamp_ms: int | None = None
    is_match_needed: bool = True

    def resolve(
        self, bounds: Mapping[MessageQueue, Bounds], ask: OffsetLookUp, now_ms: int, on_loss: OnLoss = refuse_loss
    ) -> dict[MessageQueue, int]:
        """Returns the first offset to read of each queue.

        Calls ``on_loss`` when the group's offset is outside its queue; if that returns, the queue starts at the
        nearest offset that exists. Raises OptionError for a queue or an offset that does not exist, for a time
        without a message, and whatever a request to the broker raises.
        """
        self.specs.refuse_unknown_scopes(bounds)
        specs = {queue: self.specs.find(queue) for queue in sorted(bounds)}
        starts = {queue: spec for queue, (_, spec) in specs.items() if spec != GROUP}
        group_queues = [queue for queue in specs if queue not in starts]
        starts |= self._find_group_starts(group_queues, bounds, ask, now_ms, on_loss)
        found = ask.find_offsets_at({queue: at.timestamp_ms for queue, at in starts.items() if isinstance(at, AtTime)})
        offsets = {}
        for queue, (option, spec) in specs.items():
            if isinstance(spec, int):
                refuse_out_of_bounds(option, queue, spec, bounds[queue])
            if isinstance(spec, AtTime) and self.is_match_needed:
                _refuse_no_match(option, queue, spec, found[queue], bounds[queue])
            offsets[queue] = _compute_start(starts[queue], bounds[queue], found.get(queue))
        return offsets

    def _find_group_starts(
        self,
        queues: Sequence[MessageQueue],
        bounds: Mapping[MessageQueue, Bounds],
        ask: OffsetLookUp,
        now_ms: int,
        on_loss: OnLoss,
    ) -> dict[MessageQueue, OffsetSpec]:
        if not queues or self.group is None:
            return {}
        since_ms = self.consume_timestamp_ms
        since = AtTime(max(0, now_ms - CONSUME_TIMESTAMP_AGO_MS) if since_ms is None else since_ms)
        starts: dict[MessageQueue, OffsetSpec] = {}
        for queue, stored in ask.get_consumer_offsets(self.group, queues).items():
            starts[queue] = compute_pull_from_where(queue.topic, stored, self.consume_from_where, since)
            if starts[queue] == stored and (loss := find_loss(queue, stored, bounds[queue])) is not None:
                on_loss(loss)
                starts[queue] = bounds[queue].clamp(stored)
        return starts


def compute_pull_from_where(topic: str, stored: int | None, consume_from_where: str, since: AtTime) -> OffsetSpec:
    """Returns where a consumer group starts, given its stored offset: RocketMQ's table (rules 1.10).

    Where the table says 0, this says earliest: a pull at 0 is corrected to the min offset anyway (rules 1.8).
    """
    if stored is not None and stored >= 0:
        return stored
    is_retry = topic.startswith(RETRY_PREFIX)
    if consume_from_where == CONSUME_FROM_TIMESTAMP:
        return LATEST if is_retry else since
    return EARLIEST if is_retry or consume_from_where == CONSUME_FROM_FIRST_OFFSET else LATEST


def resolve_ends(
    specs: RankedSpecs, bounds: Mapping[MessageQueue, Bounds], ask: OffsetLookUp
) -> dict[MessageQueue, int]:
    """Returns the exclusive end offset of each queue; for a time, the first message stored at that time or later.

    A queue without such a message is read to its end (rules 8.6). Raises OptionError for a queue or an offset that
    does not exist, and whatever a request to the broker raises.
    """
    specs.refuse_unknown_scopes(bounds)
    found_specs = {queue: specs.find(queue) for queue in sorted(bounds)}
    times = {queue: at.timestamp_ms for queue, (_, at) in found_specs.items() if isinstance(at, AtTime)}
    found = ask.find_offsets_at(times)
    ends = {}
    for queue, (option, spec) in found_specs.items():
        if isinstance(spec, int):
            refuse_out_of_bounds(option, queue, spec, bounds[queue])
            ends[queue] = spec
        else:
            ends[queue] = bounds[queue].clamp(found.get(queue, bounds[queue].max_offset))
    return ends


def refuse_start_after_end(starts: RankedSpecs, ends: RankedSpecs) -> None:
    """Raises OptionError when the options alone show a start after its end: two offsets, or two times."""
    for scope in sorted(starts.scopes | ends.scopes, key=str):
        (start_option, start), (end_option, end) = starts.find(scope), ends.find(scope)
        if _is_after(start, end):
            raise OptionError(
                f"Options {start_option} and {end_option} start {describe_scope(scope)} at {start}, after its end at "
                f"{end}. A start may equal its end, which reads nothing, but may not be after it."
            )


def refuse_start_offset_after_end(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> None:
    """Raises OptionError for the first queue that starts after its end, once both are offsets."""
    for queue, end in sorted(ends.items()):
        if starts[queue] > end:
            raise OptionError(
                f"Queue {queue} starts at offset {starts[queue]}, after its end at offset {end}. "
                "Check the starting and ending options."
            )


def _is_after(start: OffsetSpec, end: OffsetSpec) -> bool:
    if isinstance(start, AtTime) and isinstance(end, AtTime):
        return start > end
    return isinstance(start, int) and isinstance(end, int) and start > end


def _refuse_no_match(option: str, queue: MessageQueue, wanted: AtTime, found: int, bounds: Bounds) -> None:
    if found < bounds.max_offset:
        return
    if bounds.min_offset == bounds.max_offset:
        reason = "the queue is empty. Set"
    else:
        reason = f"none in [{bounds.min_offset}, {bounds.max_offset}) was. Choose an earlier time, or set"
    raise OptionError(
        f"No offset matched from request of queue {queue} and timestamp {wanted.timestamp_ms}: option {option} "
        f"wants messages stored at {wanted} or later, and {reason} startingOffsetsByTimestampStrategy to latest to "
        "start at the end of such queues."
    )


def _compute_start(spec: OffsetSpec, bounds: Bounds, found: int | None) -> int:
    if isinstance(spec, int):
        return spec
    if spec == EARLIEST:
        return bounds.min_offset
    if spec == LATEST or found is None:
        return bounds.max_offset
    return bounds.clamp(found)
