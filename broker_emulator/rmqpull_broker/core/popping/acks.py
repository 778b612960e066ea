"""Acknowledgements, and changes of the invisible time (rules 3.17, 5.13)."""

from __future__ import annotations

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.order import acknowledge_in_order, delay_in_order
from rmqpull_broker.core.popping.receipts import Receipt
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted, PopEnded, Popped, PoppedInOrder


def acknowledge(draft: Draft, group: str, queue: MessageQueue, receipt: Receipt) -> bool:
    """Ends the flight of a message. Returns False if it was not in flight, as after another acknowledgement."""
    offset = receipt.queue_offset
    if receipt.is_ordered:
        batch = _find_batch(draft, group, queue, receipt)
        if batch is None or offset in batch.acknowledged:
            return False
        batch, next_offset = acknowledge_in_order(batch, offset)
        draft.add(batch)
        if draft.find_consumer_offset(group, queue) != next_offset:
            draft.add(OffsetsCommitted(group, ((queue, next_offset),)))
        return True
    if not draft.is_in_flight(group, queue, offset, receipt.pop_time_ms):
        return False
    draft.add(PopEnded(group, queue, range(offset, offset + 1), receipt.pop_time_ms))
    return True


def change_invisible_time(
    draft: Draft, group: str, queue: MessageQueue, receipt: Receipt, invisible_ms: int, now_ms: int
) -> Receipt:
    """Makes a message come again ``invisible_ms`` from now. Returns its new receipt.

    A delivery in order keeps its time of the pop. A message that is not in flight stays as it is.
    """
    offset = receipt.queue_offset
    if receipt.is_ordered:
        batch = _find_batch(draft, group, queue, receipt)
        if batch is not None and offset not in batch.acknowledged:
            draft.add(delay_in_order(batch, offset, now_ms + invisible_ms))
        return receipt._replace(invisible_ms=now_ms + invisible_ms - receipt.pop_time_ms)
    if draft.is_in_flight(group, queue, offset, receipt.pop_time_ms):
        here = range(offset, offset + 1)
        draft.add(PopEnded(group, queue, here, receipt.pop_time_ms))
        draft.add(Popped(group, queue, here, now_ms, invisible_ms))
    return receipt._replace(pop_time_ms=now_ms, invisible_ms=invisible_ms)


def _find_batch(draft: Draft, group: str, queue: MessageQueue, receipt: Receipt) -> PoppedInOrder | None:
    """Returns the ordered batch that a receipt belongs to; None if a newer one has taken its place."""
    batch = draft.find_in_order(group, queue)
    is_its = batch is not None and batch.pop_time_ms == receipt.pop_time_ms and receipt.queue_offset in batch.offsets
    return batch if is_its else None
