"""Ordered delivery: a queue's next batch waits for the previous one (rules 3.17, ``ConsumerOrderInfoManager``)."""

from __future__ import annotations

from dataclasses import replace

from rmqpull_broker.core.popping.request import PoppedPart, PopRequest
from rmqpull_broker.core.state.facts import PoppedInOrder
from rmqpull_broker.core.state.in_flight import find_visible_ms


def find_block_end_ms(batch: PoppedInOrder | None, attempt_id: str, now_ms: int) -> int | None:
    """Returns until when a batch blocks its queue; None when the next one may be delivered.

    It blocks while any of its messages is neither acknowledged nor visible again, but never the attempt that got it.
    """
    if batch is None or (attempt_id and batch.attempt_id == attempt_id):
        return None
    end_ms = max((find_visible_ms(batch, offset) for offset in list_unacknowledged(batch)), default=0)
    return end_ms if end_ms > now_ms else None


def list_unacknowledged(batch: PoppedInOrder) -> list[int]:
    """Returns the offsets of the messages of a batch that are not acknowledged."""
    return [offset for offset in batch.offsets if offset not in batch.acknowledged]


def make_ordered_batch(
    request: PopRequest, part: PoppedPart, before: PoppedInOrder | None, now_ms: int
) -> PoppedInOrder:
    """Returns the batch that replaces the one ``before``.

    A message that was in that one counts as consumed once more, unless the same attempt pops again.
    """
    times = {} if before is None else dict(zip(before.offsets, before.consumed_times, strict=True))
    more = 0 if before is not None and request.attempt_id and before.attempt_id == request.attempt_id else 1
    return PoppedInOrder(
        request.group,
        part.queue,
        tuple(part.offsets),
        now_ms,
        request.invisible_ms,
        request.attempt_id,
        tuple(times[offset] + more if offset in times else 0 for offset in part.offsets),
    )


def acknowledge_in_order(batch: PoppedInOrder, offset: int) -> tuple[PoppedInOrder, int]:
    """Returns the batch after an acknowledgement, and the offset of the first message that is not acknowledged.

    If all are acknowledged, that is the offset after the last message.
    """
    batch = replace(batch, acknowledged=tuple(sorted({*batch.acknowledged, offset})))
    left = list_unacknowledged(batch)
    return batch, left[0] if left else batch.offsets[-1] + 1


def delay_in_order(batch: PoppedInOrder, offset: int, invisible_ms: int, now_ms: int) -> PoppedInOrder:
    """Returns the batch after the invisible time of a message was changed."""
    visible = {**dict(batch.visible_ms), offset: now_ms + invisible_ms}
    changed = {**dict(batch.changed_ms), offset: now_ms}
    return replace(batch, visible_ms=tuple(sorted(visible.items())), changed_ms=tuple(sorted(changed.items())))
