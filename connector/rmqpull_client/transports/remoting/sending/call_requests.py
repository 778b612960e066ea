"""Makes the requests of one call: checks its rows, chooses their queues, and makes messages of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import TopicParts
from rmqpull_client.transports.remoting.messages.batch_messages import MESSAGE_BYTES, EncodedMessages, encode_batch
from rmqpull_client.transports.remoting.sending import outgoing
from rmqpull_client.transports.remoting.sending.queue_choice import ANY_QUEUE, Numbers, choose_queues
from rmqpull_client.transports.remoting.sending.row_checks import (
    PROPERTIES_BYTES_MAX,
    UNSENT_COLUMNS,
    find_illegal_rows,
    find_other_types,
    find_without_keys,
)
from rmqpull_client.transports.remoting.sending.row_requests import (
    BATCH_BYTES_MAX,
    BATCH_PROPERTY_BYTES_MAX,
    BATCH_ROWS_MAX,
    SPREAD_MAX,
    RequestRows,
    RowKinds,
    cut_requests,
)
from rmqpull_client.transports.remoting.sending.send_request import SendCall, SendRequest
from rmqpull_proto.names import RETRY_PREFIX
from rmqpull_proto.remoting.properties import DELAY, TIMER_DELIVER_MS


class Topics(Protocol):
    """What is known about topics."""

    def list_queues(self, topic: str) -> Sequence[MessageQueue]:
        """Returns the writable queues of a topic, sorted; at least one."""

    def query_message_types(self, topic: str) -> frozenset[str]:
        """Returns the message types that a topic accepts: NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY."""

    def is_compacted(self, topic: str) -> bool:
        """Whether it keeps the newest message of each key."""

    def has_timer(self, topic: str) -> bool:
        """Whether its brokers deliver messages at any time, and not only after fixed delays."""


@dataclass(frozen=True)
class Content:
    """The messages ``[start, stop)`` as the content of one request."""

    messages: Messages
    start: int
    stop: int
    sys_flag: int

    @property
    def row_count(self) -> int:
        """The number of messages."""
        return self.stop - self.start

    @property
    def rows(self) -> Iterable[int]:
        """The numbers of their rows in the call."""
        return (int(row) for row in self.messages.rows[self.start : self.stop])

    def halve(self) -> Sequence[Content]:
        """Returns the first and the second half."""
        middle = (self.start + self.stop) // 2
        ends = ((self.start, middle), (middle, self.stop))
        return [Content(self.messages, start, stop, self.sys_flag) for start, stop in ends]

    def make_body(self) -> bytes | memoryview:
        """Returns the body of the request: that of the message, or a batch."""
        if self.row_count == 1:
            body: bytes = self.messages.bodies[self.start].as_py()
            return body
        return self.messages.encoded.get_batch(self.start, self.stop)

    def get_properties(self) -> str | None:
        """Returns the properties of a single message. Those of a batch are in its body."""
        return self.messages.properties[self.start].as_py() if self.row_count == 1 else None


class Messages(NamedTuple):
    """The messages of a call, in the order of its requests."""

    rows: Numbers
    """The row number within the call, for each message."""
    bodies: pa.Array
    properties: pa.Array
    encoded: EncodedMessages


def make_requests(
    call: SendCall,
    parts: TopicParts,
    rows: pa.RecordBatch,
    by_keys: bool,
    topics: Topics,
    ids: outgoing.MessageIds,
    now_ms: int,
) -> list[SendRequest]:
    """Makes the requests of a call, and adds the reasons of illegal rows to it. See ``Producer.start_publish``.

    Raises OptionError for a column that cannot be sent, and what ``topics`` raise.
    """
    for name in UNSENT_COLUMNS:
        if name in rows.schema.names and rows.column(name).null_count < rows.num_rows:
            raise OptionError(f"Column {name} cannot be sent to RocketMQ's brokers. Leave it out, or empty.")
    if not rows.num_rows:
        return []
    call.reasons.update(find_illegal_rows(rows))
    planned = [
        _plan_topic(rows.slice(start, count), topic, by_keys, topics, now_ms) for topic, start, count in _place(parts)
    ]
    for (_, start, _), plan in zip(_place(parts), planned, strict=True):
        for row, reason in plan.reasons.items():
            call.reasons.setdefault(start + row, reason)
    delays = _join_delays(planned)
    alone = {**delays, **outgoing.make_priorities(rows, delays)}
    properties = outgoing.make_property_texts(rows, ids.take(rows.num_rows, now_ms), alone)
    body_bytes, property_bytes = (_measure(column) for column in (rows.column("body"), properties))
    for row in np.flatnonzero(property_bytes > PROPERTIES_BYTES_MAX).tolist():
        reason = f"its properties have {property_bytes[row]} bytes, and RocketMQ stores at most {PROPERTIES_BYTES_MAX}"
        call.reasons.setdefault(row, reason)
    kinds = RowKinds(
        np.concatenate([plan.indexes for plan in planned]),
        outgoing.get_sys_flags(rows),
        _find_single(parts, property_bytes, alone),
        MESSAGE_BYTES + body_bytes + property_bytes,
    )
    in_order, cut = _cut(call, parts, planned, kinds)
    bodies = rows.column("body")
    if not np.array_equal(in_order, np.arange(rows.num_rows)):
        bodies, properties = bodies.take(pa.array(in_order)), properties.take(pa.array(in_order))
    messages = Messages(in_order, bodies, properties, encode_batch(bodies, properties))
    queues = [plan.queues for plan in planned]
    return [
        SendRequest(
            call,
            parts[part][0],
            queues[part],
            None if each.queue == ANY_QUEUE else queues[part][each.queue],
            Content(messages, each.start, each.stop, each.sys_flag),
        )
        for part, each in cut
    ]


class _TopicPlan(NamedTuple):
    """The decisions about the rows of one topic."""

    queues: Sequence[MessageQueue]
    indexes: Numbers
    delays: Mapping[str, pa.Array]
    reasons: Mapping[int, str]


def _place(parts: TopicParts) -> list[tuple[str, int, int]]:
    """Returns the topic, the first row and the number of rows of each part."""
    starts = np.cumsum([0, *(count for _, count in parts)]).tolist()
    return [(topic, start, count) for (topic, count), start in zip(parts, starts, strict=False)]


def _plan_topic(rows: pa.RecordBatch, topic: str, by_keys: bool, topics: Topics, now_ms: int) -> _TopicPlan:
    queues = topics.list_queues(topic)
    indexes, reasons = choose_queues(rows, queues, by_keys)
    delays: dict[str, pa.Array] = {}
    if "deliveryTimestamp" in rows.schema.names and rows.column("deliveryTimestamp").null_count < rows.num_rows:
        times = rows.column("deliveryTimestamp")
        delays, too_late = outgoing.make_delays(times, now_ms, topics.has_timer(topic))
        reasons = {**too_late, **reasons}
    types = topics.query_message_types(topic)
    for row, kind in find_other_types(rows, types).items():
        reasons.setdefault(
            row, f"topic {topic} takes only messages of type {', '.join(types)}, and this is one of type {kind}"
        )
    if topics.is_compacted(topic):
        for row in find_without_keys(rows):
            reasons.setdefault(row, f"topic {topic} has cleanup.policy=COMPACTION, and loses messages without keys")
    return _TopicPlan(queues, indexes, delays, reasons)


def _join_delays(planned: Sequence[_TopicPlan]) -> dict[str, pa.Array]:
    """Returns the delays of all rows, by the name of the property."""
    return {
        name: pa.concat_arrays([plan.delays.get(name, pa.nulls(len(plan.indexes), pa.string())) for plan in planned])
        for name in (DELAY, TIMER_DELIVER_MS)
        if any(name in plan.delays for plan in planned)
    }


def _find_single(parts: TopicParts, property_bytes: Numbers, alone: Mapping[str, pa.Array]) -> npt.NDArray[np.bool_]:
    """Finds the messages that cannot be in a batch (rules 4.10): retries, and large or ``alone`` properties.

    A broker chooses the queue of a single message by its priority, but ignores the priorities in a batch.
    """
    single: npt.NDArray[np.bool_] = property_bytes > BATCH_PROPERTY_BYTES_MAX
    for column in alone.values():
        single |= column.is_valid().to_numpy(zero_copy_only=False)
    for topic, start, count in _place(parts):
        if topic.startswith(RETRY_PREFIX):
            single[start : start + count] = True
    return single


def _measure(values: pa.Array) -> Numbers:
    lengths: Numbers = pc.fill_null(pc.binary_length(values), 0).to_numpy().astype(np.int64)
    return lengths


def _cut(
    call: SendCall, parts: TopicParts, planned: Sequence[_TopicPlan], kinds: RowKinds
) -> tuple[Numbers, list[tuple[int, RequestRows]]]:
    """Cuts the legal rows into requests, topic by topic.

    Returns the rows in the order of their requests, and each request with the number of its part.
    """
    is_legal = np.ones(len(kinds.queues), np.bool_)
    is_legal[list(call.reasons)] = False
    orders, cut, done = list[Numbers](), list[tuple[int, RequestRows]](), 0
    for part, (_, start, count) in enumerate(_place(parts)):
        rows = start + np.flatnonzero(is_legal[start : start + count])
        spread = min(len(planned[part].queues), SPREAD_MAX)
        order, requests = cut_requests(kinds.take(rows), BATCH_ROWS_MAX, BATCH_BYTES_MAX, spread)
        orders.append(rows if order is None else rows[order])
        cut += [(part, each._replace(start=done + each.start, stop=done + each.stop)) for each in requests]
        done += len(rows)
    return np.concatenate(orders), cut
