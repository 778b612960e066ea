"""Sending: checks messages, selects their queues, and stores them with offsets and a store time (rules 3.10, 5.11).

Single sends and columnar batches follow the same rules, in two forms: a single message needs no Arrow, and a row of a
batch needs no Python object, unless it is delayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.admin.topics import create_on_send, ensure_retry_topic
from rmqpull_broker.core.errors import Forbidden, InternalError, MessageCorrupted
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import PERM_WRITE, Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.column_batches import (
    complete_batch,
    find_chosen_queues,
    find_ordering_groups,
    has_only_normal_rows,
    move_own_properties,
    take_priorities,
)
from rmqpull_broker.core.sending.column_checks import check_columns, check_types, find_row_types
from rmqpull_broker.core.sending.placement import Placement, select_queue_ids
from rmqpull_broker.core.sending.priorities import apply_priorities, apply_priority
from rmqpull_broker.core.sending.publishing import (
    AutoCreation,
    CheckedBatch,
    Published,
    check_parts,
    name_topic_in_refusals,
)
from rmqpull_broker.core.sending.queue_selection import QueueSelector, select_queue_of_group
from rmqpull_broker.core.sending.row_checks import check_row_types, check_rows
from rmqpull_broker.core.sending.send_back import SendBack, count_retry, redirect_retry, return_message
from rmqpull_broker.core.sending.storing import BatchToStore, MessageToStore, Sent, store_batch, store_messages
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import QueuePart
from rmqpull_broker.core.state.names import check_topic_name
from rmqpull_proto.names import DLQ_PREFIX, RETRY_PREFIX
from rmqpull_proto.remoting.properties import OWN, SHARDING_KEY, TRACE_CONTEXT

_CHECKED_AT_ONCE = 16_384
"""Rows of a batch that are checked in one step, a few milliseconds."""


@dataclass(frozen=True)
class Sender:
    """Sends to one broker. It has the queue selector, the source of new ids, and the store host of messages.

    ``consumes_in_order`` tells whether a group holds a queue lock at a given time (rules 3.8).
    """

    selector: QueueSelector
    message_ids: MessageIds
    store_host: str
    consumes_in_order: Callable[[str, int], bool] = lambda group, now_ms: False

    def send(self, draft: Draft, topic_name: str, messages: Iterable[Message], now_ms: int) -> list[Sent]:
        """Stores messages of one topic, as one SendMessage does, and returns them in the same order.

        Messages of a message group go to the queue of their group, and all others together to the next queue in turn.
        Raises the error of the first rule that a message breaks; then no message is stored. The proxy's checks (rules
        5.11) come before the broker's (rules 3.10.1).
        """
        check_topic_name(topic_name)
        checked = check_rows(messages, now_ms)
        if not checked:
            raise MessageCorrupted("no message to send")
        topic = draft.require_topic(topic_name)
        if _has_one_type(topic):
            check_row_types(checked, topic.topic_type)
        queue_count = _count_writable_queues(draft, topic)
        check_in_service(draft, now_ms)
        to_store = self._select_queues(draft, topic, checked, queue_count)
        if topic_name.startswith(RETRY_PREFIX):
            to_store = [self.redirect_retry(draft, count_retry(to_store), None, now_ms)]
        if len(to_store) == 1:  # Apache's proxy sends several messages as a batch, in which priorities are ignored
            to_store = [apply_priority(to_store[0], topic.write_queue_nums)]
        return store_messages(draft, to_store, now_ms, self.store_host)

    def _select_queues(
        self, draft: Draft, topic: TopicConfig, messages: Sequence[Message], queue_count: int
    ) -> list[MessageToStore]:
        in_turn: MessageQueue | None = None
        to_store = []
        for message in messages:
            if message.message_group is not None:
                queue = _find_queue(draft, topic, select_queue_of_group(message.message_group, queue_count))
            elif in_turn is None:
                queue = in_turn = _find_queue(draft, topic, self.selector.take_turn(topic.name, queue_count, 1))
            else:
                queue = in_turn
            to_store.append(MessageToStore(queue, _move_own_properties(message)))
        return to_store

    def redirect_retry(
        self, draft: Draft, to_store: MessageToStore, max_reconsume_times: int | None, now_ms: int
    ) -> MessageToStore:
        """Lets a message sent to a retry topic go there, or to the dead letters. Raises ConsumerGroupNotFound."""
        in_order = self.consumes_in_order(to_store.queue.topic[len(RETRY_PREFIX) :], now_ms)
        new_id = partial(self.message_ids.take_one, now_ms)
        return redirect_retry(
            draft, to_store, max_reconsume_times, in_order=in_order, draw=self.selector.draw, new_id=new_id
        )

    def send_back(self, draft: Draft, request: SendBack, now_ms: int) -> Sent | None:
        """Stores again a message that a consumer returns. Returns None if its group has no retry queues.

        Raises what ``send_back.return_message`` raises.
        """
        new_id = partial(self.message_ids.take_one, now_ms)
        to_store = return_message(draft, request, self.store_host, self.selector.draw, new_id)
        return to_store and store_messages(draft, [to_store], now_ms, self.store_host)[0]

    def check(self, published: Published, now_ms: int) -> Iterator[CheckedBatch | None]:
        """Completes a batch, and checks what does not depend on state, in steps (see :mod:`rmqpull_broker.core.steps`).

        Raises the error of the first rule that a row breaks. With several topics, a text about one begins with it.
        """
        parts = published.topic_parts
        for part in parts:
            with name_topic_in_refusals(part.topic, parts):
                check_topic_name(part.topic)
        check_parts(parts, published.rows.num_rows)
        batch = complete_batch(published.rows, self.message_ids, now_ms, published.born_host, self.store_host)
        for begin in range(0, batch.num_rows, _CHECKED_AT_ONCE):
            yield None
            check_columns(batch.slice(begin, _CHECKED_AT_ONCE), now_ms)
        yield CheckedBatch(published, batch)

    def publish(self, draft: Draft, checked: CheckedBatch, now_ms: int) -> tuple[QueuePart, ...]:
        """Stores a batch, and returns where its rows are.

        Delayed rows are in system queues. Raises what :meth:`prepare` raises.
        """
        return self.store(draft, self.prepare(draft, checked, now_ms), now_ms)

    def prepare(self, draft: Draft, checked: CheckedBatch, now_ms: int) -> BatchToStore:
        """Selects a queue for each row. Creates a missing topic if the batch requests it.

        If nothing places any row of a topic, and none is delayed, its rows become slices, one for each queue, as
        ``TopicPart`` says. Otherwise its rows go to their queues one by one, those that nothing places in turn. Only
        for such a topic the batch is sorted and copied.

        Raises the error of the first rule that a topic breaks, or a row in it; then no message is stored and no topic
        is created. With several topics, its text begins with the topic.
        """
        published, given = checked
        parts = published.topic_parts
        all_groups = find_ordering_groups(given, published.by_keys)
        batch = move_own_properties(given)
        is_normal = batch is given and has_only_normal_rows(given)
        all_types = None if is_normal else find_row_types(given)
        batch, all_priorities = take_priorities(batch)
        begin, placement = 0, Placement()
        for part in parts:
            rows, own, groups = (rows.slice(begin, part.row_count) for rows in (batch, published.rows, all_groups))
            types, priorities = (
                None if column is None else column.slice(begin, part.row_count)
                for column in (all_types, all_priorities)
            )
            with name_topic_in_refusals(part.topic, parts):
                topic = self._find_writable_topic(draft, part.topic, published.creation, types, rows, now_ms)
                chosen = find_chosen_queues(own, draft.state.broker_names, topic.write_queue_nums)
            queues = draft.state.list_writable_queues(topic)
            if chosen is None and all(map(_is_empty, (groups, priorities, rows.column("deliveryTimestamp")))):
                placement.add_slices(queues, self.selector.take_slices(part.topic, len(queues), *part[1:]))
            else:
                take_turn = partial(self.selector.take_turn, part.topic, len(queues))
                index = select_queue_ids(groups, chosen, len(queues), take_turn)
                if priorities is not None:
                    index = apply_priorities(index, priorities, topic.write_queue_nums)
                placement.add_rows(queues, index)
            begin += part.row_count
        return placement.place(batch)

    def _find_writable_topic(
        self,
        draft: Draft,
        name: str,
        creation: AutoCreation | None,
        types: pa.Array | None,
        rows: pa.RecordBatch,
        now_ms: int,
    ) -> TopicConfig:
        """Returns the topic of a part. Raises an error unless the topic accepts the rows; without types all are
        NORMAL."""
        topic = self.find_or_create_topic(draft, name, creation, now_ms)
        if _has_one_type(topic):
            if types is not None:
                check_types(types, topic.topic_type)
            elif topic.topic_type is not TopicType.NORMAL:
                raise refusals.wrong_type(topic.topic_type, TopicType.NORMAL)
        _count_writable_queues(draft, topic)
        check_in_service(draft, now_ms)
        if name.startswith(RETRY_PREFIX):
            raise refusals.batch_of_retries(name)
        if pc.max(pc.binary_length(rows.column("body"))).as_py() > draft.properties.max_message_size:
            raise refusals.large_stored_body(draft.properties.max_message_size)
        return topic

    def store(self, draft: Draft, to_store: BatchToStore, now_ms: int) -> tuple[QueuePart, ...]:
        """Stores a batch of :meth:`prepare`, and returns where its rows are."""
        return store_batch(draft, to_store, now_ms, self.store_host)

    def find_or_create_topic(self, draft: Draft, name: str, creation: AutoCreation | None, now_ms: int) -> TopicConfig:
        """Returns the topic of a send, or creates it if the send requests that and the broker allows it.

        Rules 3.10.1, rows 4 and 5. Raises TopicNotFound.
        """
        topic = draft.find_topic(name)
        if topic is None and creation is not None:
            new_id = partial(self.message_ids.take_one, now_ms)
            topic = create_on_send(draft, name, creation.default_topic, creation.queue_nums, new_id)
            if topic is None and name.startswith(RETRY_PREFIX):
                topic = ensure_retry_topic(draft, name, 1, new_id)
        return topic or draft.require_topic(name)


def _move_own_properties(message: Message) -> Message:
    """Moves RocketMQ's own properties that the user set to where RocketMQ looks for them.

    A message group and a trace context go into their fields, because RocketMQ stores each only once. Such a group does
    not select the queue, because Apache's proxy looks only at the field (rules 5.11).
    """
    if OWN.isdisjoint(message.properties):
        return message
    properties = {name: value for name, value in message.properties.items() if name not in OWN}
    own = {name: value for name, value in message.properties.items() if name in OWN}
    group, trace = own.pop(SHARDING_KEY, None), own.pop(TRACE_CONTEXT, None)
    return replace(
        message,
        message_group=(group if message.message_group is None else message.message_group) or None,
        trace_context=(trace if message.trace_context is None else message.trace_context) or None,
        properties=properties,
        system_properties={**own, **message.system_properties},
    )


def check_in_service(draft: Draft, now_ms: int) -> None:
    """Raises InternalError before ``startAcceptSendRequestTimeStamp`` (rules 3.10.1, row 0)."""
    start_ms = draft.properties.start_accept_send_request_time_stamp
    if now_ms < start_ms:
        raise InternalError(f"broker unable to service, until {_format_time(start_ms)}")


def _format_time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms // 1000, timezone.utc):%Y-%m-%d %H:%M:%S},{time_ms % 1000:03}"


def _has_one_type(topic: TopicConfig) -> bool:
    """Whether the topic accepts messages of one type only. Retries and dead letters keep the type that they had."""
    return topic.topic_type is not TopicType.MIXED and not topic.name.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _count_writable_queues(draft: Draft, topic: TopicConfig) -> int:
    """Returns the number of queues that producers see. Raises Forbidden when there is none (rules 5.11, row 16)."""
    count = topic.write_queue_nums * len(draft.state.broker_names)
    if not (count and topic.perm & draft.properties.broker_permission & PERM_WRITE):
        raise Forbidden(refusals.NO_WRITABLE_QUEUE)
    return count


def _is_empty(column: pa.Array | None) -> bool:
    """Whether a column is absent, or null in all rows."""
    return column is None or column.null_count == len(column)


def _find_queue(draft: Draft, topic: TopicConfig, index: int) -> MessageQueue:
    """Returns the queue with this index in ``state.list_writable_queues``, without making the list."""
    broker, queue_id = divmod(index, topic.write_queue_nums)
    return MessageQueue(topic.name, draft.state.broker_names[broker], queue_id)
