"""Storing checked messages: which queue each one goes to, and the facts (rules 3.10, 3.14, 3.15).

Delayed and half messages go to a system queue first, in which they wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.message_properties import exceeds_stored_properties
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.delays import asks_for_delay, make_delayed_message
from rmqpull_broker.core.sending.half_messages import make_half_message
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import ColumnsStored, QueuePart, RowsStored


class MessageToStore(NamedTuple):
    """A checked message and its target queue."""

    queue: MessageQueue
    message: Message
    reconsume_times: int = 0


class BatchToStore(NamedTuple):
    """A checked batch of the stored schema, sorted by target queue, and the number of rows of each queue."""

    queues: Sequence[tuple[MessageQueue, int]]
    batch: pa.RecordBatch


class Sent(NamedTuple):
    """A stored message and its queue: the target queue, or the system queue in which it waits."""

    queue: MessageQueue
    row: StoredMessage


def find_destination(draft: Draft, to_store: MessageToStore, now_ms: int) -> tuple[MessageQueue, Message]:
    """Returns the queue that a message is stored in now, and the message in the form in which it waits there.

    A retry with a delay is delayed, even if its message was transactional at first (rules 3.15).
    """
    queue, message, reconsume_times = to_store
    if message.transactional and not (reconsume_times and "DELAY" in message.system_properties):
        return make_half_message(draft, queue, message)
    if asks_for_delay(message):
        return make_delayed_message(draft, queue, message, now_ms)
    return queue, message


def check_size(message: Message, properties: BrokerProperties) -> None:
    """The last store checks of rules 3.10.1. Raises MessagePropertiesTooLarge, or MessageBodyTooLarge."""
    body_bytes_max = properties.max_message_size
    if exceeds_stored_properties(message, properties):
        raise refusals.large_stored_properties(body_bytes_max)
    if len(message.body) > body_bytes_max:
        raise refusals.large_stored_body(body_bytes_max)


def store_messages(
    draft: Draft, messages: Iterable[MessageToStore], now_ms: int, store_host: str, *, may_wait: bool = True
) -> list[Sent]:
    """Stores messages and returns them in the same order.

    Unless a message ``may_wait``, its properties for delays and transactions have no effect. Raises what
    ``make_delayed_message``, ``make_half_message`` and ``check_size`` raise.
    """
    sent = []
    by_queue: dict[MessageQueue, list[StoredMessage]] = {}
    store_times: dict[MessageQueue, int] = {}
    for each in messages:
        queue, message = find_destination(draft, each, now_ms) if may_wait else (each.queue, each.message)
        check_size(message, draft.properties)
        rows = by_queue.setdefault(queue, [])
        offset, host = draft.find_next_offset(queue) + len(rows), draft.find_store_host(queue, store_host)
        if queue not in store_times:
            store_times[queue] = draft.find_store_ms(queue, now_ms)
        row = StoredMessage(message, offset, store_times[queue], host, each.reconsume_times)
        rows.append(row)
        sent.append(Sent(queue, row))
    for queue, rows in by_queue.items():
        draft.add(RowsStored(queue, tuple(rows)))
    return sent


def store_batch(
    draft: Draft, to_store: BatchToStore, now_ms: int, store_host: str, *, may_wait: bool = True
) -> tuple[QueuePart, ...]:
    """Stores a batch, and returns where its rows are. Rows that have to wait are in system queues.

    Unless a message ``may_wait``, its delivery time has no effect.
    """
    queues, batch = to_store
    if may_wait and batch.column("deliveryTimestamp").null_count < batch.num_rows:
        return _store_row_by_row(draft, to_store, now_ms, store_host)
    parts = tuple(QueuePart(queue, draft.find_next_offset(queue), count) for queue, count in queues)
    offsets = pa.concat_arrays([columns.make_offset_column(part.first_offset, part.row_count) for part in parts])
    if draft.state.store_hosts:
        hosts = [pa.repeat(draft.find_store_host(queue, store_host), count) for queue, count in queues]
        index = batch.schema.get_field_index("storeHost")
        batch = batch.set_column(index, batch.schema.field(index), pa.concat_arrays(hosts))
    store_times = [(draft.find_store_ms(part.queue, now_ms), part.row_count) for part in parts]
    draft.add(ColumnsStored(parts, columns.set_offsets_and_times(batch, offsets, store_times)))
    return parts


def split_delayed(to_store: BatchToStore) -> tuple[BatchToStore, BatchToStore]:
    """Splits a batch into rows that need not wait, and delayed rows. Either may have no rows, and then no queues."""
    delays = to_store.batch.column("deliveryTimestamp")
    if delays.null_count == len(delays):
        return to_store, BatchToStore((), to_store.batch.slice(0, 0))
    if not delays.null_count:
        return BatchToStore((), to_store.batch.slice(0, 0)), to_store
    counts = [count for _, count in to_store.queues]
    delayed_counts = columns.sum_parts(delays.is_valid().cast(pa.int64()), counts)
    plain = [(queue, count - delayed) for (queue, count), delayed in zip(to_store.queues, delayed_counts, strict=True)]
    delayed = [(queue, count) for (queue, _), count in zip(to_store.queues, delayed_counts, strict=True)]
    return (
        BatchToStore([part for part in plain if part[1]], to_store.batch.filter(delays.is_null())),
        BatchToStore([part for part in delayed if part[1]], to_store.batch.filter(delays.is_valid())),
    )


def _store_row_by_row(draft: Draft, to_store: BatchToStore, now_ms: int, store_host: str) -> tuple[QueuePart, ...]:
    """Stores a batch with delayed messages."""
    targets = (queue for queue, count in to_store.queues for _ in range(count))
    rows = columns.to_rows([to_store.batch])
    messages = [MessageToStore(queue, row.message) for queue, row in zip(targets, rows, strict=True)]
    sent = store_messages(draft, messages, now_ms, store_host)
    parts = []
    for queue, group in groupby(sorted(sent, key=lambda each: each.queue), key=lambda each: each.queue):
        offsets = [each.row.queue_offset for each in group]
        parts.append(QueuePart(queue, offsets[0], len(offsets)))
    return tuple(parts)
