"""Receipts of ordered deliveries, as a broker accepts them from consumers of the remoting protocol (rules 3.17.1)."""

from __future__ import annotations

from rmqpull_broker.core.errors import IllegalDelivery
from rmqpull_broker.core.popping.acks import acknowledge
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted

_NONE = -1


def is_behind(draft: Draft, message: DeliveredMessage) -> bool:
    """Whether the group has left a message behind. Then the broker says yes, and changes nothing."""
    return message.receipt.queue_offset < _find_progress(draft, message)


def acknowledge_any(draft: Draft, message: DeliveredMessage, remote_address: str) -> bool:
    """Acknowledges a message, in order or not. Returns False if it was not in flight, and stays as it is.

    An ordered acknowledgement without a batch moves the group's offset past the message. Raises IllegalDelivery for a
    message that is not in the batch.
    """
    group, queue, receipt = message
    if not receipt.is_ordered:
        return acknowledge(draft, message)
    if is_behind(draft, message):
        return False
    batch, offset = draft.find_in_order(group, queue), receipt.queue_offset
    if batch is None:
        if draft.find_reset(group, queue) is None:
            draft.add(OffsetsCommitted(group, ((queue, offset + 1),)))
        return False
    if batch.pop_time_ms != receipt.pop_time_ms:
        return False
    if offset not in batch.offsets:
        place, old = f"{queue.topic}@{group}@{queue.queue_id}", _find_progress(draft, message)
        text = f"offset is illegal, key:{place}, old:{old}, commit:{offset}, next:{_NONE}, {remote_address}"
        raise IllegalDelivery(text)
    return acknowledge(draft, message)


def _find_progress(draft: Draft, message: DeliveredMessage) -> int:
    offset = draft.find_consumer_offset(message.group, message.queue)
    return _NONE if offset is None else offset
