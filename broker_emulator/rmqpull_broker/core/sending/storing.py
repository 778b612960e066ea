"""Where checked messages go, and the facts that put them there (rules 3.10, 3.14, 3.15)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.delays import make_delayed_message
from rmqpull_broker.core.sending.transactions import make_half_message
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored


class MessageToStore(NamedTuple):
    """A checked message and the queue that it is meant for."""

    queue: MessageQueue
    message: Message
    reconsume_times: int = 0


class Sent(NamedTuple):
    """A message as stored, and the queue where it is: its own, or the system queue in which it waits."""

    queue: MessageQueue
    row: StoredMessage


def find_destination(draft: Draft, placed: MessageToStore, now_ms: int) -> tuple[MessageQueue, Message]:
    """Where a message is stored, and as what: half and delayed ones wait in a system queue.

    A message that is tried again waits for its delay, whatever it was at first (rules 3.15).
    """
    queue, message, reconsume_times = placed
    if message.transactional and not (reconsume_times and "DELAY" in message.system_properties):
        return make_half_message(draft, queue, message)
    if message.delivery_timestamp_ms is not None or "DELAY" in message.system_properties:
        return make_delayed_message(draft, queue, message, now_ms)
    return queue, message


def store_messages(draft: Draft, messages: Iterable[MessageToStore], now_ms: int, store_host: str) -> list[Sent]:
    """Stores messages and gives them back in their order.

    Raises what ``delayed`` and ``half`` raise, and MessageBodyTooLarge above ``maxMessageSize``.
    """
    sent = []
    by_queue: dict[MessageQueue, list[StoredMessage]] = {}
    body_bytes_max = draft.properties.max_message_size
    for placed in messages:
        queue, message = find_destination(draft, placed, now_ms)
        if len(message.body) > body_bytes_max:
            raise refusals.large_stored_body(body_bytes_max)
        rows = by_queue.setdefault(queue, [])
        row = StoredMessage(message, draft.next_offset(queue) + len(rows), now_ms, store_host, placed.reconsume_times)
        rows.append(row)
        sent.append(Sent(queue, row))
    for queue, rows in by_queue.items():
        draft.add(RowsStored(queue, tuple(rows)))
    return sent
