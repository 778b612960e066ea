"""How a task hands its messages over: as they come, or into a stage that a commit makes readable.

A window of sends is under way; where an order must hold that the server does not keep for us, it is one send wide.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from pyspark_rmqpull.client.producing import Producer, Transaction
from pyspark_rmqpull.errors import RequestRefused, RmqpullError
from pyspark_rmqpull.sink.encoding import InvalidRow, TopicRows, pieces, plain_rows
from pyspark_rmqpull.sink.options import HASH, ROUND_ROBIN, SinkOptions
from pyspark_rmqpull.sink.row_ids import RowIds

ROWS_PER_CALL_MAX = 10_000
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

OnInvalid = Callable[[InvalidRow], None]


class Delivery(Protocol):
    """Takes the messages of one attempt of a task."""

    def send(self, part: TopicRows) -> None:
        """Hands rows over; some may still be under way when it returns. Raises RmqpullError."""

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

    part: TopicRows
    place: int
    answer: Callable[[], Any]


class Columns:
    """Sends in columns, into a stage when there is a transaction. See :class:`Delivery`.

    A batch that is refused for one of its rows is halved until that row stands alone.
    """

    def __init__(
        self,
        producer: Producer,
        options: SinkOptions,
        on_invalid: OnInvalid,
        *,
        row_ids: RowIds | None = None,
        stage: tuple[Transaction, str] | None = None,
    ) -> None:
        self._producer = producer
        self._options = options
        self._on_invalid = on_invalid
        self._row_ids = row_ids
        self._stage = stage
        self._places = itertools.count(0, _STRIDE)
        self._under_way: deque[_Call] = deque()
        self._call_count = 0
        self._is_committed = False
        self._keeper = None if stage is None else _Keeper(producer, stage[0], options.transaction_timeout_ms)

    def send(self, part: TopicRows) -> None:
        """Cuts the rows into calls."""
        rows = part.rows if self._row_ids is None else self._row_ids.added(part.topic, part.rows)
        for piece in pieces(rows, self._options.batch_bytes, ROWS_PER_CALL_MAX):
            while len(self._under_way) >= self._width(piece):
                self._take()
            if self._is_committed:  # an earlier attempt of this micro-batch was: nothing is needed of this one
                return
            self._begin(TopicRows(part.topic, piece), next(self._places))

    def _width(self, rows: pa.RecordBatch) -> int:
        """One where rows must arrive in their order; a stage puts its calls in order by itself."""
        has_groups = "messageGroup" in rows.schema.names and rows.column("messageGroup").null_count < rows.num_rows
        is_ordered = has_groups or self._options.queue_selector != ROUND_ROBIN
        return 1 if is_ordered and self._stage is None else self._options.in_flight

    def _begin(self, part: TopicRows, place: int) -> None:
        self._under_way.append(_Call(part, place, self._started(part, place)))

    def _started(self, part: TopicRows, place: int) -> Callable[[], Any]:
        by_keys = self._options.queue_selector == HASH
        if self._stage is None:
            return self._producer.start_publish(part.topic, part.rows, by_keys)
        transaction, stage_id = self._stage
        timeout_ms = self._options.transaction_timeout_ms
        return self._producer.start_stage(transaction, stage_id, place, part.topic, part.rows, by_keys, timeout_ms)

    def _take(self) -> None:
        call = self._under_way.popleft()
        self._settle(call.part, call.place, call.answer, _STRIDE)

    def _settle(self, part: TopicRows, place: int, answer: Callable[[], Any], room: int) -> None:
        try:
            answered = answer()
        except RmqpullError as error:
            refusal = _refusal_of_rows(part.topic, error)
            if part.rows.num_rows == 1:
                self._on_invalid(InvalidRow(part, str(refusal)))
                return
            middle, room = part.rows.num_rows // 2, room // 2
            for half, at in ((part.rows.slice(0, middle), place), (part.rows.slice(middle), place + room)):
                rows = TopicRows(part.topic, half)
                self._settle(rows, at, self._started(rows, at), room)
            return
        self._call_count += 1
        self._is_committed |= self._stage is not None and answered.is_committed

    def finish(self) -> Handed:
        """Waits for all calls."""
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

    def send(self, part: TopicRows) -> None:
        """One call for each row."""
        for piece in pieces(self._row_ids.added(part.topic, part.rows), self._options.batch_bytes, ROWS_PER_CALL_MAX):
            for index, row in enumerate(plain_rows(piece)):
                group = row.get("messageGroup")
                while len(self._under_way) >= self._options.in_flight or self._waits_for(group):
                    self._take()
                alone = TopicRows(part.topic, piece.slice(index, 1))
                self._under_way.append((group, _Call(alone, 0, self._producer.start_send(part.topic, row))))

    def _waits_for(self, group: str | None) -> bool:
        return group is not None and any(group == under_way for under_way, _ in self._under_way)

    def _take(self) -> None:
        _, call = self._under_way.popleft()
        try:
            call.answer()
        except RmqpullError as error:
            self._on_invalid(InvalidRow(call.part, str(_refusal_of_rows(call.part.topic, error))))

    def finish(self) -> Handed:
        """Waits for all messages."""
        while self._under_way:
            self._take()
        return Handed()

    def close(self) -> None:
        """There is nothing to let go."""


def _refusal_of_rows(topic: str, error: RmqpullError) -> RequestRefused:
    """The error of a send, when it is about the rows; any other is raised, and tells the topic."""
    if isinstance(error, RequestRefused):
        if error.code in REFUSED_ROWS:
            return error
        raise RequestRefused(error.code, f"Rows for topic {topic} were not taken: {error}") from None
    raise type(error)(f"Rows for topic {topic} were not taken: {error}") from None


class _Keeper:
    """Keeps a transaction alive while its task waits for rows."""

    def __init__(self, producer: Producer, transaction: Transaction, timeout_ms: int) -> None:
        self._producer = producer
        self._transaction = transaction
        self._timeout_ms = timeout_ms
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rmqpull-keeper", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._timeout_ms / 1000 / _KEEPS_PER_TIMEOUT):
            try:
                self._producer.keep(self._transaction, self._timeout_ms)
            except RmqpullError:
                continue  # the commit tells when it was too late

    def stop(self) -> None:
        """Ends it at once."""
        self._stopped.set()
