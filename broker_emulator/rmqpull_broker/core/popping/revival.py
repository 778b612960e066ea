"""Revival: a message that its group did not acknowledge in time is stored again in the retry topic (rules 3.17)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from rmqpull_broker.core.admin.topics import ensure_retry_topic
from rmqpull_broker.core.limits import RECONSUME_TIMES_MAX
from rmqpull_broker.core.model import MessageQueue, StoredMessage
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted, PopEnded, RowsStored
from rmqpull_broker.core.state.in_flight import Delivery, make_offsets
from rmqpull_broker.core.state.names import name_pop_retry_topic
from rmqpull_broker.core.state.waiting_messages import StoredAt, read_waiting
from rmqpull_proto.remoting.properties import FIRST_POP_TIME, ORIGIN_GROUP

REVIVALS_MAX = 1_000
"""Messages that one command stores again. The rest is left to the next command, so that others can run in between."""


class _Due(NamedTuple):
    delivery: Delivery
    offset: int

    @property
    def stored_at(self) -> StoredAt:
        return StoredAt(self.delivery.queue, self.offset)


def revive_due(draft: Draft, now_ms: int, store_host: str, new_id: Callable[[], str]) -> int:
    """Stores messages again whose invisible time has passed: at most REVIVALS_MAX, and a few megabytes.

    A message keeps its id, born time and properties, and has one more retry. Its copy and the end of its delivery are
    one batch of facts, so it is redelivered once, even after a crash. ``new_id`` makes a creation id.
    Returns the number of messages.

    The retry topic and the group's offset on it are created even above the limits, which pops check: a message must not
    get lost.
    """
    due = _list_due(draft, now_ms)
    rows = read_waiting(draft.state.store, [each.stored_at for each in due]) if due else []
    by_queue: dict[MessageQueue, list[StoredMessage]] = {}
    for each, stored in zip(due, rows, strict=False):
        queue = _find_retry_queue(draft, each.delivery, new_id)
        again = by_queue.setdefault(queue, [])
        offset = draft.find_next_offset(queue) + len(again)
        host = draft.find_store_host(queue, store_host)
        again.append(_make_copy(stored, each.delivery, offset, draft.find_store_ms(queue, now_ms), host))
    for queue, stored_rows in by_queue.items():
        draft.add(RowsStored(queue, tuple(stored_rows)))
    _begin_progress(draft, {(each.delivery.group, _name_retry_queue(each.delivery)) for each in due[: len(rows)]})
    _end(draft, due[: len(rows)])
    return len(rows)


def _list_due(draft: Draft, now_ms: int) -> list[_Due]:
    due = [
        _Due(delivery, offset)
        for delivery in draft.state.popped.list_due(now_ms, REVIVALS_MAX)
        for offset in delivery.list_left()
        if draft.is_in_flight(delivery.group, delivery.queue, offset, delivery.pop_time_ms)
    ]
    return due[:REVIVALS_MAX]


def _find_retry_queue(draft: Draft, delivery: Delivery, new_id: Callable[[], str]) -> MessageQueue:
    queue = _name_retry_queue(delivery)
    ensure_retry_topic(draft, queue.topic, 1, new_id, within_limits=False)
    return queue


def _name_retry_queue(delivery: Delivery) -> MessageQueue:
    name = name_pop_retry_topic(delivery.group, delivery.queue.topic)
    return MessageQueue(name, delivery.queue.broker_name, 0)


def _begin_progress(draft: Draft, groups: Iterable[tuple[str, MessageQueue]]) -> None:
    """Gives groups an offset on their retry queues, so that retries count as lag even before the next pop."""
    for group, queue in sorted(groups):
        if draft.find_consumer_offset(group, queue) is None:
            draft.add(OffsetsCommitted(group, ((queue, 0),)), within_limits=False)


def _make_copy(stored: StoredMessage, delivery: Delivery, offset: int, store_ms: int, host: str) -> StoredMessage:
    message, times = stored.message, min(stored.reconsume_times + 1, RECONSUME_TIMES_MAX)
    properties = {**message.system_properties, ORIGIN_GROUP: delivery.group}
    if not stored.reconsume_times:
        properties[FIRST_POP_TIME] = str(delivery.pop_time_ms)
    return StoredMessage(replace(message, system_properties=properties), offset, store_ms, host, times)


def _end(draft: Draft, ended: Iterable[_Due]) -> None:
    by_delivery: dict[tuple[str, MessageQueue, int], list[int]] = {}
    for delivery, offset in ended:
        by_delivery.setdefault((delivery.group, delivery.queue, delivery.pop_time_ms), []).append(offset)
    for (group, queue, pop_time_ms), offsets in by_delivery.items():
        draft.add(PopEnded(group, queue, make_offsets(sorted(offsets)), pop_time_ms))
