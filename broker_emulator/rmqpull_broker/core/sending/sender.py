"""How messages become facts: checked, given a queue, an offset and a store time (rules 3.10, 5.11).

Single sends and batches in columns share every rule and differ in the form in which they are judged and kept: a single
message costs no Arrow, a row of a batch costs no Python object, unless it has to wait for its delivery time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import limits
from rmqpull_broker.core.admin.topics import create_on_send, ensure_retry_topic
from rmqpull_broker.core.errors import BadRequest, BrokerError, Forbidden, InternalError, MessageCorrupted
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import PERM_WRITE, SHARDING_KEY, Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.column_batches import (
    complete,
    find_chosen_queues,
    join_keys,
    move_message_groups,
    queue_ids,
    sort_by_queue,
)
from rmqpull_broker.core.sending.column_checks import check_columns, check_types, find_row_types
from rmqpull_broker.core.sending.queue_selection import QueueSelector, select_queue_of_group
from rmqpull_broker.core.sending.row_checks import check_row_types, check_rows
from rmqpull_broker.core.sending.send_back import SendBack, retried, returned
from rmqpull_broker.core.sending.storing import MessageToStore, Sent, store_messages
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import ColumnsStored, QueuePart
from rmqpull_broker.core.state.names import DLQ_PREFIX, RETRY_PREFIX, check_topic_name

RECONSUME_TIME = "RECONSUME_TIME"
DEFAULT_TOPIC_QUEUE_NUMS = 4
"""Queues that clients ask for when their send creates the topic (rules 1.18)."""


@dataclass(frozen=True)
class AutoCreation:
    """What a send asks for when its topic is unknown (rules 3.9.3)."""

    default_topic: str
    queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS


class TopicPart(NamedTuple):
    """The next ``row_count`` rows of a batch are messages of this topic."""

    topic: str
    row_count: int


class Published(NamedTuple):
    """A batch on its way in: columns of the wire's publish schema, absent ones counting as null.

    All rows are of ``topic``, unless ``parts`` says which of them are of which topic, in the order of the rows.
    ``by_keys`` sends rows with the same keys to the same queue, where neither a queue nor a message group says more.
    """

    topic: str
    rows: pa.RecordBatch
    born_host: str
    creation: AutoCreation | None = None
    by_keys: bool = False
    parts: Sequence[TopicPart] = ()


class BatchToStore(NamedTuple):
    """A checked batch of the stored schema, sorted by queue, and the number of rows of each queue."""

    queues: list[tuple[MessageQueue, int]]
    batch: pa.RecordBatch


@dataclass(frozen=True)
class Sender:
    """Stores messages for one broker: whose turn it is, new ids, and the address that stored messages carry.

    ``consumes_in_order`` tells whether a group holds a queue lock at a time (rules 3.8).
    """

    selector: QueueSelector
    message_ids: MessageIds
    store_host: str
    consumes_in_order: Callable[[str, int], bool] = lambda group, now_ms: False

    def send(self, draft: Draft, topic_name: str, messages: Iterable[Message], now_ms: int) -> list[Sent]:
        """Stores messages of one topic, as one SendMessage does: those of a message group on the queue of their group,
        the others together on the queue whose turn it is.

        Gives them back as stored, in their order. Raises the BrokerError of the first rule that a message breaks; then
        nothing is stored. It is checked by rules 5.11, then by rules 3.10.1.
        """
        check_topic_name(topic_name)
        judged = check_rows(messages, now_ms)
        if not judged:
            raise MessageCorrupted("no message to send")
        topic = draft.require_topic(topic_name)
        if _is_typed(topic):
            check_row_types(judged, topic.topic_type)
        queue_count = _writable_count(draft, topic)
        check_in_service(draft, now_ms)
        placed = self._place(draft, topic, judged, queue_count)
        if topic_name.startswith(RETRY_PREFIX):
            placed = [self.retried(draft, each, None, now_ms) for each in _as_retry(placed)]
        return store_messages(draft, placed, now_ms, self.store_host)

    def _place(
        self, draft: Draft, topic: TopicConfig, messages: Sequence[Message], queue_count: int
    ) -> list[MessageToStore]:
        in_turn: MessageQueue | None = None
        placed = []
        for message in messages:
            if message.message_group is not None:
                queue = _queue_at(draft, topic, select_queue_of_group(message.message_group, queue_count))
            elif in_turn is None:
                queue = in_turn = _queue_at(draft, topic, self.selector.in_turn(topic.name, queue_count, 1))
            else:
                queue = in_turn
            placed.append(MessageToStore(queue, _with_group(message)))
        return placed

    def retried(
        self, draft: Draft, placed: MessageToStore, max_reconsume_times: int | None, now_ms: int
    ) -> MessageToStore:
        """Where a message sent to a retry topic is meant to go. Raises ConsumerGroupNotFound."""
        in_order = self.consumes_in_order(placed.queue.topic[len(RETRY_PREFIX) :], now_ms)
        new_id = partial(self.message_ids.take_one, now_ms)
        return retried(draft, placed, max_reconsume_times, in_order=in_order, draw=self.selector.draw, new_id=new_id)

    def send_back(self, draft: Draft, request: SendBack, now_ms: int) -> Sent | None:
        """Takes a message back that a consumer could not consume; None when its group wants no retries.

        Raises what ``send_back.returned`` raises.
        """
        new_id = partial(self.message_ids.take_one, now_ms)
        placed = returned(draft, request, self.store_host, self.selector.draw, new_id)
        return placed and store_messages(draft, [placed], now_ms, self.store_host)[0]

    def publish(self, draft: Draft, published: Published, now_ms: int) -> tuple[QueuePart, ...]:
        """Stores a batch, as if its rows had been sent one after another.

        Rows that wait for their delivery time are said to be where they wait. Raises the BrokerError of the first rule
        that a row breaks; then nothing is stored and no topic is created.
        """
        placed = self.place(draft, published, now_ms)
        return self.store(draft, placed.queues, placed.batch, now_ms)

    def place(self, draft: Draft, published: Published, now_ms: int) -> BatchToStore:
        """Completes and checks a batch, and gives each row the queue that it is meant for; creates a missing topic
        where that is asked for. Raises the BrokerError of the first rule that a row breaks; where the batch has several
        topics, the sentence begins with the topic that it is about.
        """
        parts = published.parts or [TopicPart(published.topic, published.rows.num_rows)]
        is_one = len(parts) == 1
        for part in parts:
            with _about(part.topic, is_one):
                check_topic_name(part.topic)
        _check_parts(parts, published.rows.num_rows)
        batch = complete(published.rows, self.message_ids, now_ms, published.born_host, self.store_host)
        check_columns(batch, now_ms)
        groups = batch.column("messageGroup")
        if published.by_keys:
            groups = pc.coalesce(groups, join_keys(batch.column("keys")))
        all_types = find_row_types(batch)
        place, queues, indexes = 0, list[MessageQueue](), list[pa.Array]()
        for part in parts:
            types, its_groups, its_rows = (column.slice(place, part.row_count) for column in (all_types, groups, batch))
            with _about(part.topic, is_one):
                topic = self._writable_topic(draft, part.topic, published.creation, types, its_rows, now_ms)
                given = published.rows.slice(place, part.row_count)
                chosen = find_chosen_queues(given, draft.state.broker_names, topic.write_queue_nums)
            own_queues = draft.state.writable_queues(topic)
            in_turn = partial(self.selector.in_turn, part.topic, len(own_queues))
            index = queue_ids(its_groups, chosen, len(own_queues), in_turn)
            indexes.append(pc.add(index, pa.scalar(len(queues), pa.int32())) if queues else index)
            queues += own_queues
            place += part.row_count
        batch, counts = sort_by_queue(move_message_groups(batch), pa.concat_arrays(indexes), len(queues))
        return BatchToStore([(queues[index], count) for index, count in counts], batch)

    def _writable_topic(
        self,
        draft: Draft,
        name: str,
        creation: AutoCreation | None,
        types: pa.Array,
        rows: pa.RecordBatch,
        now_ms: int,
    ) -> TopicConfig:
        """The topic of a part, which must take its rows."""
        topic = self.topic(draft, name, creation, now_ms)
        if _is_typed(topic):
            check_types(types, topic.topic_type)
        _writable_count(draft, topic)
        check_in_service(draft, now_ms)
        if name.startswith(RETRY_PREFIX):
            raise refusals.batch_of_retries(name)
        if pc.max(pc.binary_length(rows.column("body"))).as_py() > draft.properties.max_message_size:
            raise refusals.large_stored_body(draft.properties.max_message_size)
        return topic

    def store(
        self, draft: Draft, queues: Sequence[tuple[MessageQueue, int]], batch: pa.RecordBatch, now_ms: int
    ) -> tuple[QueuePart, ...]:
        """Stores the rows of a checked batch, sorted by ``queues``, which has the number of rows of each queue."""
        if batch.column("deliveryTimestamp").null_count < batch.num_rows:
            return self._store_rows(draft, queues, batch, now_ms)
        parts = tuple(QueuePart(queue, draft.next_offset(queue), count) for queue, count in queues)
        offsets = pa.concat_arrays([columns.make_offset_column(part.first_offset, part.row_count) for part in parts])
        draft.add(ColumnsStored(parts, columns.set_offsets_and_time(batch, offsets, now_ms)))
        return parts

    def topic(self, draft: Draft, name: str, creation: AutoCreation | None, now_ms: int) -> TopicConfig:
        """The topic of a send, created when that is asked for and allowed (rules 3.10.1, rows 4 and 5).

        Raises TopicNotFound.
        """
        topic = draft.find_topic(name)
        if topic is None and creation is not None:
            new_id = partial(self.message_ids.take_one, now_ms)
            topic = create_on_send(draft, name, creation.default_topic, creation.queue_nums, new_id)
            if topic is None and name.startswith(RETRY_PREFIX):
                topic = ensure_retry_topic(draft, name, 1, new_id)
        return topic or draft.require_topic(name)

    def _store_rows(
        self, draft: Draft, queues: Sequence[tuple[MessageQueue, int]], batch: pa.RecordBatch, now_ms: int
    ) -> tuple[QueuePart, ...]:
        """Stores a batch of which some rows have to wait, message by message."""
        own = (queue for queue, count in queues for _ in range(count))
        placed = [MessageToStore(queue, row.message) for queue, row in zip(own, columns.to_rows([batch]), strict=True)]
        sent = store_messages(draft, placed, now_ms, self.store_host)
        parts = []
        for queue, group in groupby(sorted(sent, key=lambda each: each.queue), key=lambda each: each.queue):
            offsets = [each.row.queue_offset for each in group]
            parts.append(QueuePart(queue, offsets[0], len(offsets)))
        return tuple(parts)


@contextmanager
def _about(topic: str, is_only_one: bool) -> Iterator[None]:
    """Says in a refusal which of several topics it is about."""
    try:
        yield
    except BrokerError as error:
        if is_only_one:
            raise
        raise type(error)(f"topic[{topic}]: {error}") from None


def _check_parts(parts: Sequence[TopicPart], row_count: int) -> None:
    """Raises MessageCorrupted without any row, BadRequest unless the parts have each topic once and all rows."""
    if row_count == 0:
        raise MessageCorrupted("no message to send")
    named = set[str]()
    for topic, count in parts:
        if topic in named:
            raise BadRequest(f"the batch names topic {topic} twice; put all of its rows into one part")
        named.add(topic)
        if count < 1:
            raise BadRequest(f"the part of topic {topic} has {count} rows, and must have 1 or more")
    named_count = sum(count for _, count in parts)
    if named_count != row_count:
        raise BadRequest(f"the parts of the batch have {named_count} rows together, and the batch has {row_count}")


def _with_group(message: Message) -> Message:
    """The message with its group in one place: RocketMQ keeps one value, the user's where no other is.

    The user's chooses no queue, since Apache's proxy looks at the message group alone (rules 5.11).
    """
    if SHARDING_KEY not in message.properties:
        return message
    properties = {name: value for name, value in message.properties.items() if name != SHARDING_KEY}
    return replace(message, message_group=message.sharding_key or None, properties=properties)


def check_in_service(draft: Draft, now_ms: int) -> None:
    """Raises InternalError before ``startAcceptSendRequestTimeStamp`` (rules 3.10.1, row 0)."""
    start_ms = draft.properties.start_accept_send_request_time_stamp
    if now_ms < start_ms:
        raise InternalError(f"broker unable to service, until {_time_text(start_ms)}")


def _time_text(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms // 1000, timezone.utc):%Y-%m-%d %H:%M:%S},{time_ms % 1000:03}"


def _is_typed(topic: TopicConfig) -> bool:
    """Whether the topic takes messages of one type alone; retries and dead letters are of whatever type they were."""
    return topic.topic_type is not TopicType.MIXED and not topic.name.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _writable_count(draft: Draft, topic: TopicConfig) -> int:
    """How many queues producers see on all brokers. Raises Forbidden without any (rules 5.11, row 16)."""
    count = topic.write_queue_nums * len(draft.state.broker_names)
    if not (count and topic.perm & draft.properties.broker_permission & PERM_WRITE):
        raise Forbidden("no writable queue")
    return count


def _queue_at(draft: Draft, topic: TopicConfig, index: int) -> MessageQueue:
    """The queue at a place of ``state.writable_queues``, which a single send does not list."""
    broker, queue_id = divmod(index, topic.write_queue_nums)
    return MessageQueue(topic.name, draft.state.broker_names[broker], queue_id)


def _as_retry(placed: Sequence[MessageToStore]) -> list[MessageToStore]:
    """A retry as its producer counts it, in RECONSUME_TIME, which is not stored (rules 5.11)."""
    if len(placed) > 1:
        raise refusals.batch_of_retries(placed[0].queue.topic)
    [(queue, message, _)] = placed
    properties = dict(message.system_properties)
    times = min(int(properties.pop(RECONSUME_TIME, "0")), limits.RECONSUME_TIMES_MAX)
    return [MessageToStore(queue, replace(message, system_properties=properties), times)]
