"""Acknowledgements, and changes of the invisible time (rules 3.17, 5.13)."""

from __future__ import annotations

from rmqpull_broker.core.clients.settings import make_subscription_settings
from rmqpull_broker.core.errors import IllegalInvisibleTime
from rmqpull_broker.core.model import GroupConfig, MessageQueue
from rmqpull_broker.core.popping.order import acknowledge_in_order, delay_in_order
from rmqpull_broker.core.popping.receipts import DeliveredMessage, Receipt
from rmqpull_broker.core.sending.send_back import SendBack
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted, PopEnded, Popped, PoppedInOrder

INVISIBLE_MS_MAX = 12 * 3_600_000
"""The longest invisible time that clients of the gRPC protocol may request."""
_TO_DEAD_LETTERS = -1


def check_invisible_time(invisible_ms: int, least_ms: int) -> int:
    """Returns an invisible time. Raises IllegalInvisibleTime outside ``least_ms`` and 12 hours (rules 5.5)."""
    if invisible_ms < least_ms:
        raise IllegalInvisibleTime(f"the invisibleTime is too small. min is {least_ms}")
    if invisible_ms > INVISIBLE_MS_MAX:
        raise IllegalInvisibleTime(f"the invisibleTime is too large. max is {INVISIBLE_MS_MAX}")
    return invisible_ms


def is_in_flight(draft: Draft, message: DeliveredMessage) -> bool:
    """Whether a message is still in flight by the delivery that its receipt names."""
    group, queue, receipt = message
    if receipt.is_ordered:
        batch = _find_batch(draft, group, queue, receipt)
        return batch is not None and receipt.queue_offset not in batch.acknowledged
    return draft.is_in_flight(group, queue, receipt.queue_offset, receipt.pop_time_ms)


def acknowledge(draft: Draft, message: DeliveredMessage) -> bool:
    """Ends the flight of a message. Returns False if it was not in flight, as after another acknowledgement."""
    group, queue, receipt = message
    offset = receipt.queue_offset
    if receipt.is_ordered:
        batch = _find_batch(draft, group, queue, receipt)
        if batch is None or offset in batch.acknowledged:
            return False
        batch, next_offset = acknowledge_in_order(batch, offset)
        draft.add(batch)
        if (draft.find_consumer_offset(group, queue) or 0) < next_offset:
            draft.add(OffsetsCommitted(group, ((queue, next_offset),)))
        return True
    if not draft.is_in_flight(group, queue, offset, receipt.pop_time_ms):
        return False
    draft.add(PopEnded(group, queue, range(offset, offset + 1), receipt.pop_time_ms))
    return True


def is_exhausted(group: GroupConfig, attempt: int) -> bool:
    """Whether a delivery is one more than the group allows, and the message goes to the dead letters."""
    return attempt > make_subscription_settings(group).max_attempts


def give_up(draft: Draft, sender: Sender, message: DeliveredMessage, now_ms: int) -> bool:
    """Stores a message among the dead letters of its group, and acknowledges it. Returns False if it was not in flight.

    Raises what ``Sender.send_back`` raises.
    """
    if not acknowledge(draft, message):
        return False
    group, queue, receipt = message
    sender.send_back(draft, SendBack(group, queue, receipt.queue_offset, delay_level=_TO_DEAD_LETTERS), now_ms)
    return True


def change_invisible_time(draft: Draft, message: DeliveredMessage, invisible_ms: int, now_ms: int) -> Receipt:
    """Makes a message visible again ``invisible_ms`` from now. Returns its new receipt, which names this message alone.

    An ordered delivery keeps its pop time. A message that is not in flight does not change.
    """
    group, queue, receipt = message
    offset = receipt.queue_offset
    if receipt.is_ordered:
        batch = _find_batch(draft, group, queue, receipt)
        if batch is not None and offset not in batch.acknowledged:
            draft.add(delay_in_order(batch, offset, invisible_ms, now_ms))
        return receipt._replace(start_offset=offset, invisible_ms=now_ms + invisible_ms - receipt.pop_time_ms)
    if draft.is_in_flight(group, queue, offset, receipt.pop_time_ms):
        here = range(offset, offset + 1)
        draft.add(PopEnded(group, queue, here, receipt.pop_time_ms))
        draft.add(Popped(group, queue, here, now_ms, invisible_ms))
    return receipt._replace(start_offset=offset, pop_time_ms=now_ms, invisible_ms=invisible_ms)


def _find_batch(draft: Draft, group: str, queue: MessageQueue, receipt: Receipt) -> PoppedInOrder | None:
    """Returns the ordered batch that a receipt belongs to; None if a newer one has replaced it."""
    batch = draft.find_in_order(group, queue)
    is_its = batch is not None and batch.pop_time_ms == receipt.pop_time_ms and receipt.queue_offset in batch.offsets
    return batch if is_its else None
