"""How a task delivers its messages: it sends them at once, or stages them until a commit makes them readable.

Several calls are in flight at a time, but only one if messages have an order that the server does not keep.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from pyspark_rmqpull.options.sending import HASH, ROUND_ROBIN
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.invalid_rows import InvalidRow
from pyspark_rmqpull.sink.slices import SliceChoice
from pyspark_rmqpull.sink.topic_parts import CallLimits, PartedRows, RowBuffer, cut_calls, read_rows
from rmqpull_client.errors import RequestRefused, RmqpullError, RowsRefused
from rmqpull_client.transports.port import Producer, TransactionId

if TYPE_CHECKING:
    from pyspark_rmqpull.sink.row_ids import RowIds

ROWS_PER_CALL_MAX = 10_000
BUFFERED_BYTES_MAX = 32 << 20
"""The largest buffer for rows of several topics."""
INVALID_ROW_CODES = frozenset(
    {
        "ILLEGAL_MESSAGE_TAG",
        "ILLEGAL_MESSAGE_KEY",
        "ILLEGAL_MESSAGE_GROUP",
        "ILLEGAL_MESSAGE_PROPERTY_KEY",
        "ILLEGAL_DELIVERY_TIME",
        "MESSAGE_BODY_EMPTY",
        "MESSAGE_BODY_TOO_LARGE",
        "MESSAGE_PROPERTIES_TOO_LARGE",
        "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
        "MESSAGE_CORRUPTED",
        "PAYLOAD_TOO_LARGE",
        "BAD_REQUEST",
    }
)
"""Codes by which a server refuses a batch because of one of its rows."""

_SEQUENCE_STRIDE = 1 << 20
"""The distance of the sequence numbers of two calls: room for the halves of a batch that is refused."""
_KEEPS_PER_TIMEOUT = 3
_TOPICS_NAMED_MAX = 3

OnInvalid = Callable[[InvalidRow], None]


class Delivery(Protocol):
    """Delivers the messages of one attempt of a task."""

    def deliver_rows(self, rows: PartedRows) -> None:
        """Takes rows; some may still be in a buffer or in flight when it returns. Raises RmqpullError."""

    def finish_delivery(self) -> FinishedDelivery:
        """Returns when the server has stored everything. Raises RmqpullError."""

    def close(self) -> None:
        """Ends threads, whether or not the delivery has finished."""


class FinishedDelivery(NamedTuple):
    """The stage of a finished delivery and the number of its calls; without a stage the messages are sent."""

    stage_id: str | None = None
    call_count: int = 0


class _Call(NamedTuple):
    """A call in flight. ``wait`` returns its response; ``sequence`` is its number within a stage."""

    rows: PartedRows
    sequence: int
    wait: Callable[[], Any]


class ColumnDelivery:
    """Sends rows in columns, or stages them if there is a transaction. See :class:`Delivery`.

    Small batches stay in a buffer until they fill a call. Rows of several topics stay until they fill several calls,
    and are sorted by topic, so that each call has few topics and many rows of each. A batch that is refused because of
    a row is halved until that row is alone.
    """

    def __init__(
        self,
        producer: Producer,
        options: SinkOptions,
        on_invalid: OnInvalid,
        *,
        row_ids: RowIds | None = None,
        stage: tuple[TransactionId, str] | None = None,
    ) -> None:
        self._producer = producer
        self._options = options
        self._on_invalid = on_invalid
        self._row_ids = row_ids
        self._stage = stage
        self._limits = CallLimits(ROWS_PER_CALL_MAX, options.batch_bytes, producer.abilities.topics_per_call_max)
        self._buffer = RowBuffer(self._limits, min(options.in_flight * options.batch_bytes, BUFFERED_BYTES_MAX))
        self._slices = SliceChoice(producer, options.min_records_per_queue)
        self._sequences = itertools.count(0, _SEQUENCE_STRIDE)
        self._in_flight: deque[_Call] = deque()
        self._call_count = 0
        self._is_committed = False
        self._keeper = None if stage is None else _StageRenewer(producer, stage[0], options.transaction_timeout_ms)

    def deliver_rows(self, rows: PartedRows) -> None:
        """Puts rows into the buffer, and sends what it has when it is full."""
        if not self._buffer.has_room(rows):
            self._send_buffer()
        self._buffer.buffer_rows(rows if self._row_ids is None else self._row_ids.add_ids(rows))
        if self._buffer.is_full:
            self._send_buffer()

    def finish_delivery(self) -> FinishedDelivery:
        """Sends the rest of the buffer, and waits for all calls."""
        self._send_buffer()
        while self._in_flight:
            self._finish_call(self._in_flight.popleft(), _SEQUENCE_STRIDE)
        return FinishedDelivery() if self._stage is None else FinishedDelivery(self._stage[1], self._call_count)

    def close(self) -> None:
        """Stops keeping the stage alive: its commit follows soon, or it expires."""
        if self._keeper is not None:
            self._keeper.stop()

    def _send_buffer(self) -> None:
        for rows in cut_calls(self._buffer.take_rows(), self._limits):
            while len(self._in_flight) >= self._choose_in_flight(rows.rows):
                self._finish_call(self._in_flight.popleft(), _SEQUENCE_STRIDE)
            if self._is_committed:  # by an earlier attempt, so nothing of this one is needed
                return
            self._slices.count_rows(rows.parts)
            self._in_flight.append(self._start_call(rows, next(self._sequences)))

    def _choose_in_flight(self, rows: pa.RecordBatch) -> int:
        """Returns how many calls may be in flight: 1 if rows have to arrive in order and nothing else keeps it.

        In a stage the broker restores the order of the calls.
        """
        if self._stage is not None or self._producer.abilities.keeps_order:
            return self._options.in_flight
        has_groups = "messageGroup" in rows.schema.names and rows.column("messageGroup").null_count < rows.num_rows
        is_ordered = has_groups or self._options.queue_selector != ROUND_ROBIN
        return 1 if is_ordered else self._options.in_flight

    def _start_call(self, rows: PartedRows, sequence: int) -> _Call:
        by_keys = self._options.queue_selector == HASH
        slices = self._slices.choose_slices(rows.parts)
        if self._stage is None:
            return _Call(rows, sequence, self._producer.start_publish(rows.parts, rows.rows, by_keys, slices))
        timeout_ms = self._options.transaction_timeout_ms
        wait = self._producer.start_stage(*self._stage, sequence, rows.parts, rows.rows, by_keys, timeout_ms, slices)
        return _Call(rows, sequence, wait)

    def _finish_call(self, call: _Call, room: int) -> None:
        """Waits for a call.

        If a batch is refused because of a row, it sends the two halves, with sequence numbers within ``room``.
        """
        try:
            response = call.wait()
        except RowsRefused as refused:
            for index, reason in refused.reasons.items():
                self._on_invalid(InvalidRow(next(call.rows.slice(index, 1).by_topic()), reason))
            return
        except RmqpullError as error:
            refusal = _find_row_refusal([topic for topic, _ in call.rows.parts], error)
            count = call.rows.rows.num_rows
            if count == 1:
                self._on_invalid(InvalidRow(next(call.rows.by_topic()), str(refusal)))
                return
            middle, room = count // 2, room // 2
            for start, row_count, sequence in (
                (0, middle, call.sequence),
                (middle, count - middle, call.sequence + room),
            ):
                self._finish_call(self._start_call(call.rows.slice(start, row_count), sequence), room)
            return
        self._call_count += 1
        self._is_committed |= self._stage is not None and response.is_committed


class MessageDelivery:
    """Sends messages one by one over the standard protocol. See :class:`Delivery`.

    A message of a group waits for the earlier ones of its group, and for no others.
    """

    def __init__(self, producer: Producer, options: SinkOptions, on_invalid: OnInvalid, row_ids: RowIds) -> None:
        self._producer = producer
        self._options = options
        self._on_invalid = on_invalid
        self._row_ids = row_ids
        self._in_flight: deque[tuple[str | None, _Call]] = deque()

    def deliver_rows(self, rows: PartedRows) -> None:
        """Starts one call for each row."""
        limits = CallLimits(ROWS_PER_CALL_MAX, self._options.batch_bytes)
        for piece in cut_calls(self._row_ids.add_ids(rows), limits):
            for index, row in enumerate(read_rows(piece.rows)):
                group = row.get("messageGroup")
                while len(self._in_flight) >= self._options.in_flight or self._has_in_flight(group):
                    self._finish_oldest()
                message = piece.slice(index, 1)
                wait = self._producer.start_send(message.parts[0].topic, row)
                self._in_flight.append((group, _Call(message, 0, wait)))

    def finish_delivery(self) -> FinishedDelivery:
        """Waits for all messages."""
        while self._in_flight:
            self._finish_oldest()
        return FinishedDelivery()

    def close(self) -> None:
        """Does nothing: there is no thread."""

    def _has_in_flight(self, group: str | None) -> bool:
        return group is not None and any(group == other for other, _ in self._in_flight)

    def _finish_oldest(self) -> None:
        _, call = self._in_flight.popleft()
        try:
            call.wait()
        except RmqpullError as error:
            message = next(call.rows.by_topic())
            self._on_invalid(InvalidRow(message, str(_find_row_refusal([message.topic], error))))


def _find_row_refusal(topics: Sequence[str], error: RmqpullError) -> RequestRefused:
    """Returns the error if it refuses a row. Raises any other error, with the topics."""
    if isinstance(error, RequestRefused) and error.code in INVALID_ROW_CODES:
        return error
    text = f"Cannot write rows to topic{'s' * (len(topics) > 1)} {_shorten(topics)}: {error}"
    if isinstance(error, RequestRefused):
        raise type(error)(error.code, text) from None
    raise type(error)(text) from None


def _shorten(topics: Sequence[str]) -> str:
    text = ", ".join(topics[:_TOPICS_NAMED_MAX])
    return f"{text} and {len(topics) - _TOPICS_NAMED_MAX} more" if len(topics) > _TOPICS_NAMED_MAX else text


class _StageRenewer:
    """Keeps the stages of a transaction alive while a task waits for rows."""

    def __init__(self, producer: Producer, transaction: TransactionId, timeout_ms: int) -> None:
        self._producer = producer
        self._transaction = transaction
        self._timeout_ms = timeout_ms
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rmqpull-stage-keeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._timeout_ms / 1000 / _KEEPS_PER_TIMEOUT):
            try:
                self._producer.keep_stages(self._transaction, self._timeout_ms)
            except RmqpullError:
                continue  # if the stages expire, the commit is refused

    def stop(self) -> None:
        """Ends the thread at once."""
        self._stopped.set()
