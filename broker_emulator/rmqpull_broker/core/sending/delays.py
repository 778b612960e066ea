"""Delayed messages: they wait in a system queue, and are stored in their target queue when they are due.

rules 3.14: a level's messages wait in SCHEDULE_TOPIC_XXXX, those of an arbitrary time in
rmq_sys_wheel_timer, on the broker of their target queue. Each message matches one row of this table:

    =======================================  =====================================================================
    the message has                          it is stored
    =======================================  =====================================================================
    a DELAY level above 0                    in SCHEDULE_TOPIC_XXXX, queue level - 1; due at store time + delay
    a delivery time that has passed          in its target queue, at once
    a delivery time within the limit         in rmq_sys_wheel_timer; due at the whole second before that time
    a delivery time beyond the limit         not at all: IllegalDeliveryTime
    =======================================  =====================================================================
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from rmqpull_broker.core.errors import (
    Forbidden,
    IllegalOperation,
    InternalError,
    RequestFailed,
    ServiceNotAvailable,
    TopicNotFound,
)
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties, parse_level_delays
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored, WaitingEnded
from rmqpull_broker.core.state.lengths import TIMER_UNITS_MS
from rmqpull_broker.core.state.waiting_messages import DUE_MS, PENDING_MAX, read_due_ms, read_waiting
from rmqpull_proto.names import SCHEDULE_TOPIC, TIMER_TOPIC
from rmqpull_proto.remoting import properties as names

PRECISION_MS = 1_000
DELIVERIES_MAX = 1_000
"""Messages that one command delivers. The rest is left to the next command, so that others can run in between."""


TIMER_NAMES = frozenset({*TIMER_UNITS_MS, names.TIMER_DELIVER_MS})
DELAY_NAMES = TIMER_NAMES | {names.DELAY}
"""The properties that delay a message."""


def asks_for_delay(message: Message) -> bool:
    """Whether a message has a delivery time, or a property that delays it."""
    return message.delivery_timestamp_ms is not None or not DELAY_NAMES.isdisjoint(message.system_properties)


def make_delayed_message(
    draft: Draft, queue: MessageQueue, message: Message, now_ms: int
) -> tuple[MessageQueue, Message]:
    """Returns the queue that a message is stored in now, and the message in the form in which it waits there.

    The table of this module.

    Raises IllegalDeliveryTime; InternalError if the timer is off, the level is not a number or too many messages wait.
    """
    level = read_delay_level(message.system_properties)
    if level > 0:
        delays = parse_level_delays(draft.properties.message_delay_level)
        message = _keep_level_alone(message, level, len(delays))
        level = min(level, len(delays))
        wait_queue = MessageQueue(SCHEDULE_TOPIC, queue.broker_name, level - 1)
        due_ms = now_ms + delays[level - 1]
    else:
        delivery_ms = _read_delivery_ms(draft.properties, message, now_ms)
        if delivery_ms is None:
            return queue, message
        check_delivery_time(draft.properties, delivery_ms, now_ms)
        if delivery_ms <= now_ms:
            if names.TIMER_DEL_UNIQKEY in message.system_properties:  # asks to delete a delayed message: too late
                raise refusals.illegal_timer(_find_max_ms(draft.properties))
            return queue, message
        wait_queue = MessageQueue(TIMER_TOPIC, queue.broker_name, 0)
        due_ms = round_to_timer_ms(delivery_ms)
    if len(draft.state.delayed) >= PENDING_MAX:
        # Not TooManyRequests: Apache's WHEEL_TIMER_FLOW_CONTROL gets SYSTEM_ERROR (rules 3.10.1).
        raise InternalError(f"timer message is under flow control: {PENDING_MAX} messages are delayed already")
    real = {names.REAL_TOPIC: queue.topic, names.REAL_QUEUE_ID: str(queue.queue_id), DUE_MS: str(due_ms)}
    return wait_queue, replace(message, system_properties={**message.system_properties, **real})


def timer_is_off() -> InternalError:
    """The error for a delivery time while ``timerWheelEnable`` is off."""
    return InternalError("accurate timer message is not enabled, timerWheelEnable is false")


def check_delivery_time(properties: BrokerProperties, delivery_ms: int, now_ms: int) -> None:
    """Raises InternalError while the timer is off, IllegalDeliveryTime beyond ``timerMaxDelaySec``."""
    if not properties.timer_wheel_enable:
        raise timer_is_off()
    max_ms = _find_max_ms(properties)
    if delivery_ms - now_ms > max_ms:
        raise refusals.illegal_timer(max_ms)


def _find_max_ms(properties: BrokerProperties) -> int:
    return properties.timer_max_delay_sec * 1000


def _read_delivery_ms(properties: BrokerProperties, message: Message, now_ms: int) -> int | None:
    """Returns the time of the first timer property, in RocketMQ's order; None without one.

    Numbers are Java's longs: a delay that overflows them lies in the past. Raises IllegalDeliveryTime for a text that
    is not a number.
    """
    own = message.system_properties
    if names.TIMER_OUT_MS in own:
        return None  # the mark of a message that was delayed already
    name = next((name for name in (*TIMER_UNITS_MS, names.TIMER_DELIVER_MS) if name in own), None)
    if name is None:
        return message.delivery_timestamp_ms
    if not properties.timer_wheel_enable:
        raise timer_is_off()
    number = parse_java(own[name], 63)
    if number is None:
        raise refusals.illegal_timer(_find_max_ms(properties))
    unit_ms = TIMER_UNITS_MS.get(name)
    return number if unit_ms is None else _wrap(now_ms + _wrap(number * unit_ms))


def parse_java(text: str, bits: int) -> int | None:
    """Parses a number as Java does; None for any other text, and for a number that does not fit into ``bits``."""
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,1000}", text) else None
    return number if number is not None and -1 << bits <= number < 1 << bits else None


def _wrap(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _keep_level_alone(message: Message, level: int, levels_max: int) -> Message:
    """Drops the delivery time, over which a level takes precedence; a level above the last becomes the last (rules
    3.14)."""
    own = {name: value for name, value in message.system_properties.items() if name not in TIMER_NAMES}
    if level > levels_max:
        own[names.DELAY] = str(levels_max)
    return replace(message, delivery_timestamp_ms=None, system_properties=own)


def read_delay_level(properties: Mapping[str, str]) -> int:
    """Returns the level in the DELAY property; 0 for none. Raises RequestFailed for a text that is not a number."""
    text = properties.get(names.DELAY)
    level = 0 if text is None else parse_java(text, 31)
    if level is None:
        raise RequestFailed(f"the delay level {str(text)[:40]!r} is not a number")
    return level


def round_to_timer_ms(delivery_ms: int) -> int:
    """Returns the whole second before a delivery time: up to 1 s early, never late (rules 3.14.2)."""
    return (delivery_ms - 1) // PRECISION_MS * PRECISION_MS


class DeliveryCounts(NamedTuple):
    """The number of messages that a command delivered, and of those that it dropped because their topic is deleted."""

    messages: int
    dropped: int


def deliver_due(draft: Draft, now_ms: int, store_host: str) -> DeliveryCounts:
    """Stores due messages in their target queues, oldest first: at most DELIVERIES_MAX, and about
    ``waiting_messages._READ_BYTES_MAX`` bytes.

    A message keeps its id, born time and properties, and gets a new store time. Its copy and the end of its waiting are
    one batch of facts, so it is delivered once, even after a crash.
    """
    rows: dict[MessageQueue, list[StoredMessage]] = {}
    ended: dict[MessageQueue, list[tuple[int, int]]] = {}
    count = dropped = 0
    due = [
        entry for entry in draft.state.delayed.list_due(now_ms, DELIVERIES_MAX) if not draft.has_ended(entry.stored_at)
    ]
    for waiting, stored in zip(due, read_waiting(draft.state.store, [entry.stored_at for entry in due]), strict=False):
        ended.setdefault(waiting.stored_at.queue, []).append((waiting.stored_at.queue_offset, waiting.due_ms))
        queue = find_real_queue(waiting.stored_at.queue, stored.message)
        if draft.find_topic(queue.topic) is None:
            dropped += 1
            continue
        of_queue = rows.setdefault(queue, [])
        offset = draft.find_next_offset(queue) + len(of_queue)
        message = _restore_message(waiting.stored_at.queue, stored, now_ms)
        host = draft.find_store_host(queue, store_host)
        store_ms = draft.find_store_ms(queue, now_ms)
        of_queue.append(StoredMessage(message, offset, store_ms, host, stored.reconsume_times))
        count += 1
    for queue, stored_rows in rows.items():
        draft.add(RowsStored(queue, tuple(stored_rows)))
    for queue, pairs in ended.items():
        offsets, dues = zip(*pairs, strict=True)
        draft.add(WaitingEnded(queue, offsets, dues))
    return DeliveryCounts(count, dropped)


def find_real_queue(wait_queue: MessageQueue, message: Message) -> MessageQueue:
    """Returns the target queue of a waiting message, on the broker on which it waits."""
    properties = message.system_properties
    return MessageQueue(properties[names.REAL_TOPIC], wait_queue.broker_name, int(properties[names.REAL_QUEUE_ID]))


def _restore_message(wait_queue: MessageQueue, stored: StoredMessage, now_ms: int) -> Message:
    """DELAY, REAL_TOPIC and REAL_QID stay, and so does the due time of a timer message (rules 3.14.1, 6.1)."""
    own = dict(stored.message.system_properties)
    if wait_queue.topic == TIMER_TOPIC:
        own[names.TIMER_ENQUEUE_MS] = str(stored.store_timestamp_ms // PRECISION_MS * PRECISION_MS)
        own[names.TIMER_DEQUEUE_MS] = str(now_ms)
    else:
        del own[DUE_MS]
    return replace(stored.message, system_properties=own)


# --- recall ----------------------------------------------------------------------------------------------------------


def make_recall_handle(topic: str, wait_queue: MessageQueue, message: Message) -> str | None:
    """Returns the handle with which a producer recalls a timer message; None for any other message (rules 3.14.2)."""
    if wait_queue.topic != TIMER_TOPIC:
        return None
    time_ms = read_due_ms(message) + 1
    text = f"v1 {topic} {wait_queue.broker_name} {time_ms} {message.msg_id}"
    return base64.urlsafe_b64encode(text.encode()).decode()


class RecallHandle(NamedTuple):
    topic: str
    broker_name: str
    time_ms: int
    msg_id: str


def parse_recall_handle(handle: str) -> RecallHandle:
    """Parses a handle. Like Apache's broker, ignores what follows the id, and reads a bad time as -1."""
    try:
        version, topic, broker_name, time_ms, msg_id, *_ = base64.urlsafe_b64decode(handle.encode()).decode().split(" ")
        if version == "v1":
            number = parse_java(time_ms, 63)
            return RecallHandle(topic, broker_name, -1 if number is None else number, msg_id)
    except (ValueError, binascii.Error):
        pass
    raise IllegalOperation("recall handle is invalid")


def recall(draft: Draft, topic: str, handle: str, now_ms: int, broker_name: str | None = None) -> str:
    """Recalls a delayed message and returns its id. Like in Apache's broker, an unknown message is not an error.

    ``broker_name`` is the only broker that may have the message, if it is known. The checks of rules 4.6 in their
    order: raises Forbidden, ServiceNotAvailable, TopicNotFound, IllegalOperation.
    """
    if not draft.properties.recall_message_enable:
        raise Forbidden("recall failed, operation is forbidden")
    if now_ms < draft.properties.start_accept_send_request_time_stamp:
        raise ServiceNotAvailable("recall failed, broker service not available")
    if draft.find_topic(topic) is None:
        raise TopicNotFound(f"recall failed, the topic[{topic}] not exist")
    wanted = parse_recall_handle(handle)
    if wanted.topic != topic:
        raise IllegalOperation("recall failed, topic not match")
    if wanted.broker_name not in (draft.state.broker_names if broker_name is None else (broker_name,)):
        raise IllegalOperation("recall failed, broker service not available")
    if not 0 < wanted.time_ms - now_ms < draft.properties.timer_max_delay_sec * 1000:
        raise IllegalOperation("recall failed, timestamp invalid")
    queue, due_ms = MessageQueue(TIMER_TOPIC, wanted.broker_name, 0), wanted.time_ms - 1
    for stored_at, _ in draft.state.delayed.find(queue, due_ms, wanted.msg_id):
        (stored,) = read_waiting(draft.state.store, [stored_at])
        if stored.message.msg_id == wanted.msg_id and not draft.has_ended(stored_at):
            draft.add(WaitingEnded(queue, (stored_at.queue_offset,), (due_ms,)))
    return wanted.msg_id
