"""Where a new query begins, once the bounds of its queues are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark_rmqpull.planning.positions import EARLIEST, GROUP, LATEST, AtTime, Position, Ranked, refuse_not_available
from rmqpull_client.errors import OptionError
from rmqpull_client.loss import OnLoss, find_loss, refuse_loss
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.transports.port import OffsetLookUp

CONSUME_FROM_LAST_OFFSET = "CONSUME_FROM_LAST_OFFSET"
CONSUME_FROM_FIRST_OFFSET = "CONSUME_FROM_FIRST_OFFSET"
CONSUME_FROM_TIMESTAMP = "CONSUME_FROM_TIMESTAMP"
RETRY_TOPIC_PREFIX = "%RETRY%"
CONSUME_TIMESTAMP_AGO_MS = 30 * 60 * 1000
"""How long before now a group begins whose ``consumeTimestamp`` is not set (rules 1.2.1)."""


@dataclass(frozen=True)
class Starting:
    """Everything that options say of the begin.

    ``is_match_needed``: whether a start by time fails on a queue without a message stored then or later.
    """

    wanted: Ranked
    group: str | None = None
    consume_from_where: str = CONSUME_FROM_LAST_OFFSET
    consume_timestamp_ms: int | None = None
    is_match_needed: bool = True

    def resolve(
        self, bounds: Mapping[MessageQueue, Bounds], ask: OffsetLookUp, now_ms: int, on_loss: OnLoss = refuse_loss
    ) -> dict[MessageQueue, int]:
        """The first offset to read of each queue.

        ``on_loss`` hears of a group's offset at which its queue cannot be read any more; when it returns, the queue
        begins at what is left. Raises OptionError for a queue, an offset or a message at a time that does not exist,
        and what asking the broker raises.
        """
        self.wanted.refuse_unknown(bounds)
        said = {queue: self.wanted.of(queue) for queue in sorted(bounds)}
        begins = {queue: position for queue, (_, position) in said.items() if position != GROUP}
        of_group = self._of_group([queue for queue in said if queue not in begins], bounds, ask, now_ms, on_loss)
        begins |= of_group
        found = ask.find_offsets_at({q: begin.timestamp_ms for q, begin in begins.items() if isinstance(begin, AtTime)})
        starts = {}
        for queue, (option, position) in said.items():
            if isinstance(position, int):
                refuse_not_available(option, queue, position, bounds[queue])
            if isinstance(position, AtTime) and self.is_match_needed:
                _refuse_no_match(option, queue, position, found[queue], bounds[queue])
            starts[queue] = _offset(begins[queue], bounds[queue], found.get(queue))
        return starts

    def _of_group(
        self,
        queues: Sequence[MessageQueue],
        bounds: Mapping[MessageQueue, Bounds],
        ask: OffsetLookUp,
        now_ms: int,
        on_loss: OnLoss,
    ) -> dict[MessageQueue, Position]:
        if not queues or self.group is None:
            return {}
        since_ms = self.consume_timestamp_ms
        since = AtTime(max(0, now_ms - CONSUME_TIMESTAMP_AGO_MS) if since_ms is None else since_ms)
        begins: dict[MessageQueue, Position] = {}
        for queue, stored in ask.get_consumer_offsets(self.group, queues).items():
            begins[queue] = compute_pull_from_where(queue.topic, stored, self.consume_from_where, since)
            if begins[queue] == stored and (loss := find_loss(queue, stored, bounds[queue])) is not None:
                on_loss(loss)
                begins[queue] = bounds[queue].clamp(stored)
        return begins


def compute_pull_from_where(topic: str, stored: int | None, consume_from_where: str, since: AtTime) -> Position:
    """Where a consumer begins, by the group's stored offset: RocketMQ's table (rules 1.10).

    Where the table says 0 it is the earliest here: a pull there is repaired to the min offset (rules 1.8).
    """
    if stored is not None and stored >= 0:
        return stored
    is_retry = topic.startswith(RETRY_TOPIC_PREFIX)
    if consume_from_where == CONSUME_FROM_TIMESTAMP:
        return LATEST if is_retry else since
    return EARLIEST if is_retry or consume_from_where == CONSUME_FROM_FIRST_OFFSET else LATEST


def _refuse_no_match(option: str, queue: MessageQueue, wanted: AtTime, found: int, bounds: Bounds) -> None:
    if found >= bounds.max_offset:
        text = (
            f"No offset matched from request of queue {queue} and timestamp {wanted.timestamp_ms}: option {option} "
            f"wants messages stored at {wanted} or later, and"
        )
        if bounds.min_offset == bounds.max_offset:
            raise OptionError(
                f"{text} the queue is empty. Set startingOffsetsByTimestampStrategy to latest to begin at the end of "
                "such queues."
            )
        raise OptionError(
            f"{text} none in [{bounds.min_offset}, {bounds.max_offset}) was. Choose an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest to begin at the end of such queues."
        )


def _offset(position: Position, bounds: Bounds, found: int | None) -> int:
    if isinstance(position, int):
        return position
    if position == EARLIEST:
        return bounds.min_offset
    if position == LATEST or found is None:
        return bounds.max_offset
    return bounds.clamp(found)
