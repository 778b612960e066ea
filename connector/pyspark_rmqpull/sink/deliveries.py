"""How a task hands its messages over: as they come, or into a stage that a commit makes readable.

A window of sends is under way; where an order must hold that the server does not keep for us, it is one send wide.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from pyspark_rmqpull.options.sending import HASH, ROUND_ROBIN
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.encoding import InvalidRow, plain_rows
from pyspark_rmqpull.sink.row_ids import RowIds
from pyspark_rmqpull.sink.topic_parts import CallLimits, Gathered, PartedRows, cut
from rmqpull_client.errors import RequestRefused, RmqpullError
from rmqpull_client.transports.grpc.producer import Producer, TransactionId

ROWS_PER_CALL_MAX = 10_000
GATHERED_BYTES_MAX = 32 << 20
"""Of rows of several topics that wait to be put together."""
REFUSED_ROWS = frozenset(
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
"""Codes by which a server refuses a message for what it is; the batch around it is refused with it."""

_STRIDE = 1 << 20
"""Between the numbers of two calls of a stage: room for the parts of one that was refused."""
_KEEPS_PER_TIMEOUT = 3
_TOPICS_NAMED = 3

OnInvalid = Callable[[InvalidRow], None]


class Delivery(Protocol):
    """Takes the messages of one attempt of a task."""

    def send(self, rows: PartedRows) -> None:
        """Hands rows over; some may still wait or be under way when it returns. Raises RmqpullError."""

    def finish(self) -> Handed:
        """Returns when everything is kept. Raises RmqpullError."""

    def close(self) -> None:
        """Lets threads go, whatever happened."""


class Handed(NamedTuple):
    """What a delivery has done: its stage and the calls that this has, where there is one."""

    stage_id: str | None = None
    call_count: int = 0


class _Call(NamedTuple):
    """A send under way. ``place`` orders the calls of a stage."""

    rows: PartedRows
    place: int
    answer: Callable[[], Any]


class Columns:
    """Sends in columns, into a stage when there is a transaction. See :class:`Delivery`.

    Small batches are gathered until they fill a call. Rows of several topics are gathered for some calls more, and
    sorted by topic, so that each call has few topics and many rows of each. A batch that is refused for one of its rows
    is halved until that row stands alone.
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
        self._limits = CallLimits(ROWS_PER_CALL_MAX, options.batch_bytes, producer.topics_per_call_max)
        self._gathered = Gathered(self._limits, min(options.in_flight * options.batch_bytes, GATHERED_BYTES_MAX))
        self._places = itertools.count(0, _STRIDE)
        self._under_way: deque[_Call] = deque()
        self._call_count = 0
        self._is_committed = False
        self._keeper = None if stage is None else _Keeper(producer, stage[0], options.transaction_timeout_ms)

    def send(self, rows: PartedRows) -> None:
        """Gathers rows, and cuts what is gathered into calls."""
        if not self._gathered.takes(rows):
            self._hand_over()
        self._gathered.add(rows if self._row_ids is None else self._row_ids.added(rows))
        if self._gathered.is_full:
            self._hand_over()

    def _hand_over(self) -> None:
        for piece in cut(self._gathered.take(), self._limits):
            while len(self._under_way) >= self._width(piece.rows):
                self._take()
            if self._is_committed:  # an earlier attempt of this micro-batch was: nothing is needed of this one
                return
            place = next(self._places)
            self._under_way.append(_Call(piece, place, self._started(piece, place)))

    def _width(self, rows: pa.RecordBatch) -> int:
        """One where rows must arrive in their order; a stage puts its calls in order by itself."""
        has_groups = "messageGroup" in rows.schema.names and rows.column("messageGroup").null_count < rows.num_rows
        is_ordered = has_groups or self._options.queue_selector != ROUND_ROBIN
        return 1 if is_ordered and self._stage is None else self._options.in_flight

    def _started(self, rows: PartedRows, place: int) -> Callable[[], Any]:
        by_keys = self._options.queue_selector == HASH
        if self._stage is None:
            return self._producer.start_publish(rows.parts, rows.rows, by_keys)
        transaction, stage_id = self._stage
        timeout_ms = self._options.transaction_timeout_ms
        return self._producer.start_stage(transaction, stage_id, place, rows.parts, rows.rows, by_keys, timeout_ms)

    def _take(self) -> None:
        call = self._under_way.popleft()
        self._settle(call.rows, call.place, call.answer, _STRIDE)

    def _settle(self, rows: PartedRows, place: int, answer: Callable[[], Any], room: int) -> None:
        try:
            answered = answer()
        except RmqpullError as error:
            refusal = _refusal_of_rows([topic for topic, _ in rows.parts], error)
            count = rows.rows.num_rows
            if count == 1:
                self._on_invalid(InvalidRow(next(rows.by_topic()), str(refusal)))
                return
            middle, room = count // 2, room // 2
            for half, at in ((rows.slice(0, middle), place), (rows.slice(middle, count - middle), place + room)):
                self._settle(half, at, self._started(half, at), room)
            return
        self._call_count += 1
        self._is_committed |= self._stage is not None and answered.is_committed

    def finish(self) -> Handed:
        """Sends what is gathered, and waits for all calls."""
        self._hand_over()
        while self._under_way:
            self._take()
        return Handed() if self._stage is None else Handed(self._stage[1], self._call_count)

    def close(self) -> None:
        """Stops to keep the stage: a commit comes soon, or its timeout."""
        if self._keeper is not None:
            self._keeper.stop()


class Messages:
    """Sends messages one by one over the standard protocol. See :class:`Delivery`.

    Messages of one group wait for each other; others do not.
    """

    def __init__(self, producer: Producer, options: SinkOptions, on_invalid: OnInvalid, row_ids: RowIds) -> None:
        self._producer = producer
        self._options = options
        self._on_invalid = on_invalid
        self._row_ids = row_ids
        self._under_way: deque[tuple[str | None, _Call]] = deque()

    def send(self, rows: PartedRows) -> None:
        """One call for each row."""
        limits = CallLimits(ROWS_PER_CALL_MAX, self._options.batch_bytes)
        for piece in cut(self._row_ids.added(rows), limits):
            for index, row in enumerate(plain_rows(piece.rows)):
                group = row.get("messageGroup")
                while len(self._under_way) >= self._options.in_flight or self._waits_for(group):
                    self._take()
                alone = piece.slice(index, 1)
                answer = self._producer.start_send(alone.parts[0].topic, row)
                self._under_way.append((group, _Call(alone, 0, answer)))

    def _waits_for(self, group: str | None) -> bool:
        return group is not None and any(group == under_way for under_way, _ in self._under_way)

    def _take(self) -> None:
        _, call = self._under_way.popleft()
        try:
            call.answer()
        except RmqpullError as error:
            alone = next(call.rows.by_topic())
            self._on_invalid(InvalidRow(alone, str(_refusal_of_rows([alone.topic], error))))

    def finish(self) -> Handed:
        """Waits for all messages."""
        while self._under_way:
            self._take()
        return Handed()

    def close(self) -> None:
        """There is nothing to let go."""


def _refusal_of_rows(topics: Sequence[str], error: RmqpullError) -> RequestRefused:
    """The error of a send, when it is about the rows; any other is raised, and tells the topics."""
    of_topics = f"topic {topics[0]}" if len(topics) == 1 else f"topics {_shortened(topics)}"
    if isinstance(error, RequestRefused):
        if error.code in REFUSED_ROWS:
            return error
        raise RequestRefused(error.code, f"Rows for {of_topics} were not taken: {error}") from None
    raise type(error)(f"Rows for {of_topics} were not taken: {error}") from None


def _shortened(topics: Sequence[str]) -> str:
    shown = ", ".join(topics[:_TOPICS_NAMED])
    return f"{shown} and {len(topics) - _TOPICS_NAMED} more" if len(topics) > _TOPICS_NAMED else shown


class _Keeper:
    """Keeps a transaction alive while its task waits for rows."""

    def __init__(self, producer: Producer, transaction: TransactionId, timeout_ms: int) -> None:
        self._producer = producer
        self._transaction = transaction
        self._timeout_ms = timeout_ms
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rmqpull-keeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._timeout_ms / 1000 / _KEEPS_PER_TIMEOUT):
            try:
                self._producer.keep_stages(self._transaction, self._timeout_ms)
            except RmqpullError:
                continue  # the commit tells when it was too late

    def stop(self) -> None:
        """Ends it at once."""
        self._stopped.set()
