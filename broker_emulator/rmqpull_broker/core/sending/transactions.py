"""Transactional messages: half messages, their end, and the check of those that nobody ended (rules 3.15).

A half message waits in RMQ_SYS_TRANS_HALF_TOPIC on the broker of its own queue, where no consumer sees it:

    ===========================================  =================================================================
    what happens                                 what becomes of the half message
    ===========================================  =================================================================
    its producer says COMMIT                     stored in its own queue; settled
    its producer says ROLLBACK                   settled
    younger than its immunity                    waits
    older, and checked fewer times than the max  appended again, one check more; its producer is asked
    checked that often, or past fileReservedTime moved to TRANS_CHECK_MAX_TIME_TOPIC; settled
    ===========================================  =================================================================

What is settled stands in the commit log as a fact, where Apache's broker writes an op message.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from rmqpull_broker.core.errors import Forbidden, IllegalOperation, TooManyRequests, WrongTransaction
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.sending.delays import find_real_queue
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored, WaitingEnded
from rmqpull_broker.core.state.names import CHECK_MAX_TIME_TOPIC, HALF_TOPIC
from rmqpull_broker.core.state.pending import (
    CHECK_TIMES,
    IMMUNITY,
    PENDING_MAX,
    StoredAt,
    parse_immunity_seconds,
    read_waiting,
)

CHECKS_MAX = 1_000
"""Half messages that one command looks at; the others are left to the next one."""

_HOUR_MS = 3_600_000
_WAITING_ONLY = ("TRAN_MSG", "REAL_TOPIC", "REAL_QID")


class Resolution(enum.Enum):
    """What a producer says about its half message."""

    COMMIT = enum.auto()
    ROLLBACK = enum.auto()
    UNKNOWN = enum.auto()


@dataclass(frozen=True)
class TransactionEnd:
    """END_TRANSACTION. ``half_offset`` is the queue offset of the half message, None when only its id is known."""

    msg_id: str
    producer_group: str
    resolution: Resolution
    from_check: bool = False
    half_offset: int | None = None


@dataclass(frozen=True)
class TransactionCheck:
    """A half message whose producer is to be asked, as it would be stored in its own queue."""

    producer_group: str
    queue: MessageQueue
    stored: StoredMessage


def make_half_message(draft: Draft, queue: MessageQueue, message: Message) -> tuple[MessageQueue, Message]:
    """Where the half message of a message for ``queue`` is stored, and as what.

    Raises Forbidden when half messages are refused, TooManyRequests when too many wait.
    """
    if draft.properties.reject_transaction_message:
        raise Forbidden(f"the broker[{queue.broker_name}] sending transaction message is forbidden")
    if len(draft.state.halves) >= PENDING_MAX:
        raise TooManyRequests(f"{PENDING_MAX} half messages wait for their producers already")
    real = {"TRAN_MSG": "true", "REAL_TOPIC": queue.topic, "REAL_QID": str(queue.queue_id)}
    waiting = replace(message, system_properties={**message.system_properties, **real})
    return MessageQueue(HALF_TOPIC, queue.broker_name, 0), waiting


def end_transaction(draft: Draft, end: TransactionEnd, now_ms: int, store_host: str) -> StoredMessage | None:
    """Commits or rolls back a half message, and gives the committed one as stored.

    The rows of rules 3.15 in their order; UNKNOWN changes nothing. Raises WrongTransaction for a half
    message that is not found, of another producer group or at another offset, IllegalOperation past its immunity.
    """
    if end.resolution is Resolution.UNKNOWN:
        return None
    place, stored = _find(draft, end)
    properties = stored.message.system_properties
    immunity = properties.get(IMMUNITY)
    if not end.from_check and immunity is not None:
        age_ms = now_ms - stored.message.born_timestamp_ms
        if age_ms > parse_immunity_seconds(immunity) * 1000:
            raise IllegalOperation(f"the half message is {age_ms} ms old, past its immunity of {immunity} s")
    if properties.get("PGROUP") != end.producer_group:
        raise WrongTransaction("The producer group wrong")
    if end.half_offset not in (None, stored.queue_offset):
        raise WrongTransaction("The transaction state table offset wrong")
    committed = None
    if end.resolution is Resolution.COMMIT:
        queue = find_real_queue(place.queue, stored.message)
        draft.require_topic(queue.topic)
        message = _as_itself(stored.message)
        offset = draft.next_offset(queue)
        committed = StoredMessage(message, offset, now_ms, store_host, stored.reconsume_times)
        draft.add(RowsStored(queue, (committed,)))
    draft.add(WaitingEnded(place.queue, (place.queue_offset,)))
    return committed


def _find(draft: Draft, end: TransactionEnd) -> tuple[StoredAt, StoredMessage]:
    """The newest half message of that id; a check in the same draft may just have appended it again."""
    for place, stored in reversed(draft.list_drafted_halves(end.msg_id)):
        if not draft.has_ended(place):
            return place, stored
    for waiting in reversed(draft.state.halves.find_by_id(end.msg_id)):
        if not draft.has_ended(waiting.stored_at):
            (stored,) = read_waiting(draft.state.store, [waiting.stored_at])
            return waiting.stored_at, stored
    raise WrongTransaction("Find prepared transaction message failed")


def _as_itself(message: Message) -> Message:
    """A half message as what it becomes: without what only its waiting needed."""
    kept = {name: value for name, value in message.system_properties.items() if name not in _WAITING_ONLY}
    return replace(message, transactional=False, system_properties=kept)


def check_transactions(draft: Draft, now_ms: int, store_host: str) -> list[TransactionCheck]:
    """Looks at the half messages past their immunity and gives those whose producers are to be asked."""
    checks = []
    appended: dict[MessageQueue, list[StoredMessage]] = {}
    due = [entry for entry in draft.state.halves.list_due(now_ms, CHECKS_MAX) if not draft.has_ended(entry.stored_at)]
    for waiting, stored in zip(due, read_waiting(draft.state.store, [entry.stored_at for entry in due]), strict=False):
        half_queue = waiting.stored_at.queue
        times = _check_times(stored.message)
        given_up = times >= draft.properties.transaction_check_max or _is_outlived(draft, stored, now_ms)
        queue = half_queue._replace(topic=CHECK_MAX_TIME_TOPIC) if given_up else half_queue
        properties = {**stored.message.system_properties, CHECK_TIMES: str(times if given_up else times + 1)}
        message = replace(stored.message, system_properties=properties)
        rows = appended.setdefault(queue, [])
        rows.append(
            StoredMessage(message, draft.next_offset(queue) + len(rows), now_ms, store_host, stored.reconsume_times)
        )
        draft.add(WaitingEnded(half_queue, (waiting.stored_at.queue_offset,)))
        if not given_up:
            itself = replace(rows[-1], message=_as_itself(message))
            checks.append(TransactionCheck(properties.get("PGROUP", ""), find_real_queue(half_queue, message), itself))
    for queue, rows in appended.items():
        draft.add(RowsStored(queue, tuple(rows)))
    return checks


def _check_times(message: Message) -> int:
    text = message.system_properties.get(CHECK_TIMES, "0")
    return int(text) if text.isdecimal() else 0


def _is_outlived(draft: Draft, stored: StoredMessage, now_ms: int) -> bool:
    """Whether retention may delete the half message at any time."""
    return now_ms - stored.message.born_timestamp_ms > draft.properties.file_reserved_time * _HOUR_MS
