"""How messages become facts: checked, given a queue, an offset and a store time (rocketmq-semantics 3.10, 5.11).

Single sends and batches in columns share every rule and differ in the form in which they are judged and kept: a single
message costs no Arrow, a row of a batch costs no Python object.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import columns
from rmqpull_broker.core.column_checks import check_columns
from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.errors import MessageCorrupted, NotImplementedYet
from rmqpull_broker.core.facts import ColumnsStored, QueuePart, RowsStored
from rmqpull_broker.core.message_ids import MessageIds
from rmqpull_broker.core.model import BodyEncoding, Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.naming import check_topic_name
from rmqpull_broker.core.queue_selection import QueueSelector, by_message_group, queue_of_group
from rmqpull_broker.core.row_checks import check_rows


@dataclass(frozen=True)
class Sender:
    """Stores messages for one broker: whose turn it is, new ids, and the address that stored messages carry."""

    selector: QueueSelector
    message_ids: MessageIds
    store_host: str

    def send(self, draft: Draft, topic_name: str, messages: Sequence[Message], now_ms: int) -> list[StoredMessage]:
        """Stores messages of one topic, as one SendMessage does: together on the queue whose turn it is, or, in a FIFO
        topic, each on the queue of its message group.

        Gives them back as stored, in their order. Raises the BrokerError of the first rule that a message breaks; then
        nothing is stored.
        """
        if not messages:
            raise MessageCorrupted("no message to send")
        topic = _writable_topic(draft, topic_name)
        check_rows(messages, topic.topic_type)
        stored = []
        by_queue: dict[MessageQueue, list[StoredMessage]] = {}
        for message, queue in zip(messages, self._queues_of_send(draft, topic, messages), strict=True):
            rows = by_queue.setdefault(queue, [])
            row = StoredMessage(message, draft.next_offset(queue) + len(rows), now_ms, self.store_host)
            rows.append(row)
            stored.append(row)
        for queue, rows in by_queue.items():
            draft.add(RowsStored(queue, tuple(rows)))
        return stored

    def _queues_of_send(self, draft: Draft, topic: TopicConfig, messages: Sequence[Message]) -> list[MessageQueue]:
        queues = draft.state.writable_queues(topic)
        if topic.topic_type is TopicType.FIFO:
            return [queues[queue_of_group(message.message_group or "", len(queues))] for message in messages]
        return [queues[self.selector.in_turn(topic.name, len(queues), 1)]] * len(messages)

    def publish(
        self, draft: Draft, topic_name: str, published: pa.RecordBatch, now_ms: int, born_host: str
    ) -> tuple[QueuePart, ...]:
        """Stores a batch of one topic, as if its rows had been sent one after another.

        ``published`` has the columns of the wire's publish schema; absent ones count as null. Raises the BrokerError of
        the first rule that a row breaks; then nothing is stored.
        """
        topic = _writable_topic(draft, topic_name)
        if published.num_rows == 0:
            raise MessageCorrupted("no message to send")
        batch = self._complete(published, now_ms, born_host)
        check_columns(batch, topic.topic_type)
        writable = draft.state.writable_queues(topic)
        batch, counts = self._sort_by_queue(topic, batch, len(writable))
        queues = [writable[index] for index, _ in counts]
        parts = tuple(
            QueuePart(queue, draft.next_offset(queue), count) for queue, (_, count) in zip(queues, counts, strict=True)
        )
        offsets = pa.concat_arrays([columns.offset_column(part.first_offset, part.row_count) for part in parts])
        draft.add(ColumnsStored(parts, batch.set_column(0, columns.STORED_SCHEMA.field(0), offsets)))
        return parts

    def _complete(self, published: pa.RecordBatch, now_ms: int, born_host: str) -> pa.RecordBatch:
        """Brings a published batch to the stored schema; what the publisher left out gets its default."""
        count = published.num_rows
        defaults = {
            "properties": pa.scalar(None, columns.STORED_SCHEMA.field("properties").type),
            "systemProperties": pa.scalar(None, columns.STORED_SCHEMA.field("systemProperties").type),
            "bornTimestamp": pa.scalar(now_ms * 1000, columns.TIMESTAMP),
            "bornHost": pa.scalar(born_host),
            "bodyEncoding": pa.scalar(int(BodyEncoding.IDENTITY), pa.int32()),
        }
        given = {
            "queueOffset": columns.offset_column(0, count),
            "storeTimestamp": columns.constant_column(now_ms * 1000, columns.TIMESTAMP, count),
            "storeHost": columns.constant_column(self.store_host, pa.string(), count),
            "reconsumeTimes": columns.constant_column(0, pa.int32(), count),
        }
        arrays = []
        for field in columns.STORED_SCHEMA:
            array = given.get(field.name)
            if array is None and field.name in published.schema.names:
                array = published.column(field.name)
            if array is None:
                array = columns.constant_column(None, field.type, count)
            if field.name in ("tags", "messageGroup"):
                array = _without_empty(array)
            elif array.null_count and field.name == "msgId":
                array = pc.coalesce(array, self.message_ids.take(count, now_ms))
            elif array.null_count and field.name in defaults:
                array = _fill(array, defaults[field.name])
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=columns.STORED_SCHEMA)

    def _sort_by_queue(
        self, topic: TopicConfig, batch: pa.RecordBatch, queue_count: int
    ) -> tuple[pa.RecordBatch, list[tuple[int, int]]]:
        """The rows grouped by queue, their order within a queue kept, and (queue's index, rows) of each group."""
        count = batch.num_rows
        if topic.topic_type is TopicType.FIFO:
            queue_ids = by_message_group(batch.column("messageGroup"), queue_count)
        else:
            first = self.selector.in_turn(topic.name, queue_count, count)
            turns = pa.array(range(first, first + queue_count), pa.int32())
            one_round = pc.if_else(pc.less(turns, queue_count), turns, pc.subtract(turns, queue_count))
            rounds = -(-count // queue_count)
            queue_ids = pa.concat_arrays([one_round] * rounds).slice(0, count)
        if queue_count > 1:
            # Sorting (queue, position) pairs keeps the order of rows that go to the same queue.
            positions = pa.table({"queue": queue_ids, "row": columns.offset_column(0, count)})
            batch = batch.take(pc.sort_indices(positions, [("queue", "ascending"), ("row", "ascending")]))
        tallies = pc.value_counts(queue_ids)
        counts = zip(tallies.field(0).to_pylist(), tallies.field(1).to_pylist(), strict=True)
        return batch, sorted(counts)


def _without_empty(texts: pa.Array) -> pa.Array:
    """Empty texts as null: Apache's proxy takes an empty tag or message group for none."""
    return pc.if_else(pc.equal(pc.binary_length(texts), 0), pa.scalar(None, texts.type), texts)


def _fill(array: pa.Array, default: pa.Scalar) -> pa.Array:
    """Nulls replaced by ``default``; a missing map is an empty one, which is one without its null flag."""
    if pa.types.is_map(array.type):
        # A null may still cover entries; a copy does not.
        array = array.take(columns.offset_column(0, len(array)))
        return pa.MapArray.from_arrays(array.offsets, array.keys, array.items, array.type)
    return pc.fill_null(array, default)


def _writable_topic(draft: Draft, topic_name: str) -> TopicConfig:
    check_topic_name(topic_name)
    topic = draft.topic(topic_name)
    if topic.topic_type in (TopicType.DELAY, TopicType.TRANSACTION):
        raise NotImplementedYet(f"messages of type {topic.topic_type.value} are not served yet (topic {topic.name})")
    return topic
