"""Transactional messages: half messages, their end, and the checks of orphaned transactions (rules 3.15).

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC on the broker of its target queue. Consumers do not see it:

    ===========================================  =================================================================
    event                                        what happens to the half message
    ===========================================  =================================================================
    its producer sends COMMIT                    stored in its target queue; stops waiting
    its producer sends ROLLBACK                  stops waiting
    younger than its immunity                    waits
    older, and checked fewer times than the max  stored again with one check more; its producer is asked
    checked that often, or past fileReservedTime moved to TRANS_CHECK_MAX_TIME_TOPIC
    ===========================================  =================================================================

The end of the waiting is a fact in the commit log. Apache's broker writes an op message instead.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from rmqpull_broker.core.errors import Forbidden, IllegalOperation, TooManyRequests, WrongTransaction
from rmqpull_broker.core.messages.hidden_properties import SYS_FLAG
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.sending.delays import find_real_queue
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored, WaitingEnded
from rmqpull_broker.core.state.half_messages import keep_due_times
from rmqpull_broker.core.state.lengths import find_check_length_ms, parse_immunity_seconds
from rmqpull_broker.core.state.waiting_messages import PENDING_MAX, StoredAt, read_waiting
from rmqpull_proto.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from rmqpull_proto.remoting.properties import (
    CHECK_IMMUNITY_TIME,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_ID,
)

CHECKS_MAX = 1_000
"""Half messages that one command checks. The rest is left to the next command."""

_HOUR_MS = 3_600_000
_COMMITTED = 8
"""The bit of the system flag that marks a committed half message."""


class Resolution(enum.Enum):
    """How a producer ends its half message."""

    COMMIT = enum.auto()
    ROLLBACK = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True)
class TransactionEnd:
    """END_TRANSACTION. ``half_offset`` is the queue offset of the half message, or None if it is unknown."""

    msg_id: str
    producer_group: str
    resolution: Resolution
    from_check: bool = False
    half_offset: int | None = None


@dataclass(frozen=True)
class TransactionCheck:
    """A half message whose producer must be asked, in the form that it has in its target queue."""

    producer_group: str
    queue: MessageQueue
    stored: StoredMessage

    @property
    def half_queue(self) -> MessageQueue:
        """The queue in which the half message waits. ``stored`` has its offset there."""
        return MessageQueue(HALF_TOPIC, self.queue.broker_name, 0)


def find_half_message_id(state: BrokerState, queue: MessageQueue, queue_offset: int) -> str | None:
    """Returns the id of the half message that was stored there, whether it still waits or not; None if there is none.

    A half message that was checked is stored again at a newer offset, with the same id.
    """
    bounds = state.bounds(queue)
    if queue.topic != HALF_TOPIC or not bounds.min_offset <= queue_offset < bounds.max_offset:
        return None
    (stored,) = read_waiting(state.store, [StoredAt(queue, queue_offset)])
    return stored.message.msg_id


def make_half_message(draft: Draft, queue: MessageQueue, message: Message) -> tuple[MessageQueue, Message]:
    """Returns the queue in which a half message waits, and the message in the form in which it waits there.

    Raises Forbidden when the broker refuses half messages, TooManyRequests when too many wait.
    """
    if draft.properties.reject_transaction_message:
        raise Forbidden(f"the broker[{queue.broker_name}] sending transaction message is forbidden")
    if len(draft.state.halves) >= PENDING_MAX:
        raise TooManyRequests(f"{PENDING_MAX} half messages wait for their producers already, the max")
    real = {
        "TRAN_MSG": "true",
        REAL_TOPIC: queue.topic,
        REAL_QUEUE_ID: str(queue.queue_id),
        TRANSACTION_ID: message.msg_id,
    }
    waiting = replace(message, system_properties={**message.system_properties, **real})
    return MessageQueue(HALF_TOPIC, queue.broker_name, 0), waiting


def end_transaction(draft: Draft, end: TransactionEnd, now_ms: int, store_host: str) -> StoredMessage | None:
    """Commits or rolls back a half message, and returns the committed message as stored.

    The rows of rules 3.15 in their order; UNKNOWN changes nothing. Raises WrongTransaction for a half
    message that is not found, of another producer group or at another offset, IllegalOperation past its immunity.
    """
    if end.resolution is Resolution.UNKNOWN:
        return None
    stored_at, stored = _find_half_message(draft, end)
    properties = stored.message.system_properties
    immunity = properties.get(CHECK_IMMUNITY_TIME)
    if not end.from_check and immunity is not None:
        age_ms = now_ms - stored.message.born_timestamp_ms
        immunity_ms = max(parse_immunity_seconds(immunity) * 1000, draft.properties.transaction_time_out)
        if age_ms > immunity_ms:
            raise IllegalOperation(f"the half message is {age_ms} ms old, past its immunity of {immunity_ms // 1000} s")
    if properties.get("PGROUP") != end.producer_group:
        raise WrongTransaction("The producer group wrong")
    if end.half_offset not in (None, stored.queue_offset):
        raise WrongTransaction("The transaction state table offset wrong")
    committed = None
    if end.resolution is Resolution.COMMIT:
        queue = find_real_queue(stored_at.queue, stored.message)
        draft.require_topic(queue.topic)
        message = _commit_message(stored.message)
        offset = draft.find_next_offset(queue)
        host = draft.find_store_host(queue, store_host)
        store_ms = draft.find_store_ms(queue, now_ms)
        committed = StoredMessage(message, offset, store_ms, host, stored.reconsume_times)
        draft.add(RowsStored(queue, (committed,)))
    draft.add(WaitingEnded(stored_at.queue, (stored_at.queue_offset,)))
    return committed


def _find_half_message(draft: Draft, end: TransactionEnd) -> tuple[StoredAt, StoredMessage]:
    """Returns the newest half message with that id. A check in the same draft may have stored it again."""
    for stored_at, stored in reversed(draft.list_drafted_halves(end.msg_id)):
        if not draft.has_ended(stored_at):
            return stored_at, stored
    for waiting in reversed(draft.state.halves.find_by_id(end.msg_id)):
        if not draft.has_ended(waiting.stored_at):
            (stored,) = read_waiting(draft.state.store, [waiting.stored_at])
            return waiting.stored_at, stored
    raise WrongTransaction("Find prepared transaction message failed")


def _commit_message(message: Message) -> Message:
    """Returns a half message as it is stored in its target queue.

    TRAN_MSG stays, REAL_TOPIC and REAL_QID go, and the system flag marks it as committed (rules 3.15, 6.4).
    """
    flags = int(message.system_properties.get(SYS_FLAG, "0")) | _COMMITTED
    kept = {name: value for name, value in message.system_properties.items() if name not in (REAL_TOPIC, REAL_QUEUE_ID)}
    properties = {**kept, SYS_FLAG: str(flags)}
    return replace(message, transactional=False, system_properties=properties)


def check_transactions(draft: Draft, now_ms: int, store_host: str) -> list[TransactionCheck]:
    """Checks the half messages past their immunity, and returns those whose producers must be asked."""
    checks = []
    appended: dict[MessageQueue, list[StoredMessage]] = {}
    due = [entry for entry in draft.state.halves.list_due(now_ms, CHECKS_MAX) if not draft.has_ended(entry.stored_at)]
    for waiting, stored in zip(due, read_waiting(draft.state.store, [entry.stored_at for entry in due]), strict=False):
        half_queue = waiting.stored_at.queue
        times = _read_check_times(stored.message)
        given_up = times >= draft.properties.transaction_check_max or _is_past_retention(draft, stored, now_ms)
        queue = half_queue._replace(topic=CHECK_MAX_TIME_TOPIC) if given_up else half_queue
        properties = {
            **stored.message.system_properties,
            TRANSACTION_CHECK_TIMES: str(times if given_up else times + 1),
        }
        message = replace(stored.message, system_properties=properties)
        rows = appended.setdefault(queue, [])
        offset, host = draft.find_next_offset(queue) + len(rows), draft.find_store_host(queue, store_host)
        store_ms = draft.find_store_ms(queue, now_ms)
        rows.append(StoredMessage(message, offset, store_ms, host, stored.reconsume_times))
        draft.add(WaitingEnded(half_queue, (waiting.stored_at.queue_offset,)))
        if not given_up:
            itself = replace(rows[-1], message=replace(message, transactional=False))
            checks.append(TransactionCheck(properties.get("PGROUP", ""), find_real_queue(half_queue, message), itself))
    for queue, rows in appended.items():
        draft.add(RowsStored(queue, tuple(rows)))
        if queue.topic == HALF_TOPIC and rows[0].store_timestamp_ms != now_ms:
            lengths = [find_check_length_ms(draft.properties, row.message) for row in rows]
            draft.add(keep_due_times(queue, rows, [now_ms + length_ms for length_ms in lengths], lengths))
    return checks


def _read_check_times(message: Message) -> int:
    text = message.system_properties.get(TRANSACTION_CHECK_TIMES, "0")
    return int(text) if text.isdecimal() else 0


def _is_past_retention(draft: Draft, stored: StoredMessage, now_ms: int) -> bool:
    """Whether retention may delete the half message at any time."""
    return now_ms - stored.message.born_timestamp_ms > draft.properties.file_reserved_time * _HOUR_MS
