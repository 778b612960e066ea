"""Copies messages of queues to the queues of another topic, in columns.

The messages of a queue go to one queue, in order: those of the first queue to the first one, and so on. With fewer
queues at the target, several go to one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.errors import RequestRefused, RmqpullError, RowsRefused
from rmqpull_client.model import MessageFilter, MessageQueue, QueueRange
from rmqpull_proto.columns import PUBLISH_SCHEMA, PULL_SCHEMA
from rmqpull_proto.names import TOOLS_GROUP

if TYPE_CHECKING:
    from rmqpull_client.loss import Loss
    from rmqpull_client.transports.port import BrokerClient, QueueRows

CALL_ROWS_MAX = 10_000
CALL_BYTES_MAX = 8 << 20
"""A call ends before the bodies exceed this size, unless it is a single one."""
_OFFSET = "queueOffset"
# A message that is copied was delivered: its time is over, and most topics refuse messages with a time.
_NOT_COPIED = frozenset(("deliveryTimestamp",))


def list_columns(without: frozenset[str]) -> list[str]:
    """Returns the columns of messages that are copied, except those ``without``."""
    left_out = _NOT_COPIED | without
    return [name for name in PULL_SCHEMA.names if name in PUBLISH_SCHEMA.names and name not in left_out]


class Copier:
    """One copy.

    Args:
        source: The client that reads.
        target: The client that sends to ``topic``.
        topic: The topic of the copies.
        columns: What is copied of a message: see :func:`list_columns`.
        places: The queue of the copies, by queue.
        keep: Called after each acknowledged call, with the offsets of the next messages of the queues that it had
            messages of, and with the number of its messages.
    """

    def __init__(
        self,
        source: BrokerClient,
        target: BrokerClient,
        topic: str,
        columns: Sequence[str],
        places: Mapping[MessageQueue, MessageQueue],
        keep: Callable[[Mapping[MessageQueue, int], int], None],
    ) -> None:
        self._source = source
        self._target = target
        self._topic = topic
        self._columns = columns
        self._places = places
        self._keep = keep

    def copy(
        self, ranges: Sequence[QueueRange], message_filter: MessageFilter, on_loss: Callable[[Loss], None]
    ) -> None:
        """Copies all messages of ranges that the filter keeps.

        Raises RmqpullError: then messages of the last call may be copied, and are not kept.
        """
        reading = self._source.read(
            TOOLS_GROUP, ranges, (*self._columns, _OFFSET), message_filter=message_filter, on_loss=on_loss
        )
        for step in reading:
            self._send(step)
        self._keep({entry.queue: entry.until_offset for entry in ranges}, 0)

    def _send(self, step: Sequence[QueueRows]) -> None:
        placed = [(queue, batch) for queue, batches in step for batch in batches if batch.num_rows]
        for rows in _gather(placed):
            batches = [self._place(queue, batch) for queue, batch in rows]
            batch = pa.Table.from_batches(batches).combine_chunks().to_batches()[0]
            try:
                self._target.publish(self._topic, batch)
            except RmqpullError as error:
                raise _explain(error, rows) from None
            self._keep({queue: batch.column(_OFFSET)[-1].as_py() + 1 for queue, batch in rows}, batch.num_rows)

    def _place(self, queue: MessageQueue, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the messages of a queue with the queue of their copies."""
        place = self._places[queue]
        fields = [PUBLISH_SCHEMA.field(name) for name in (*self._columns, "brokerName", "queueId")]
        arrays = [
            *(batch.column(name) for name in self._columns),
            pa.repeat(pa.scalar(place.broker_name, pa.string()), batch.num_rows),
            pa.repeat(pa.scalar(place.queue_id, pa.int32()), batch.num_rows),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


Rows = tuple[MessageQueue, pa.RecordBatch]


def _gather(batches: Sequence[Rows]) -> Iterator[list[Rows]]:
    """Yields the messages of each call, whose size is limited."""
    waiting, row_count, byte_count = list[Rows](), 0, 0
    for queue, batch in batches:
        for part, size in _cut(batch):
            if waiting and (row_count + part.num_rows > CALL_ROWS_MAX or byte_count + size > CALL_BYTES_MAX):
                yield waiting
                waiting, row_count, byte_count = [], 0, 0
            waiting.append((queue, part))
            row_count += part.num_rows
            byte_count += size
    if waiting:
        yield waiting


def _cut(batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yields parts of a batch that fit into one call, each with the bytes of its bodies."""
    lengths = pc.fill_null(pc.binary_length(batch.column("body")), 0)
    ends = pc.cumulative_sum(lengths.cast(pa.int64()))
    begin, before = 0, 0
    while begin < batch.num_rows:
        fitting = bisect_right(range(batch.num_rows), before + CALL_BYTES_MAX, key=lambda row: ends[row].as_py())
        until = max(begin + 1, min(fitting, begin + CALL_ROWS_MAX))
        end = ends[until - 1].as_py()
        yield batch.slice(begin, until - begin), end - before
        begin, before = until, end


def _explain(error: RmqpullError, rows: Sequence[Rows]) -> RmqpullError:
    """Adds to an error which messages it is about."""
    if isinstance(error, RowsRefused):
        at = first = min(error.reasons)
        for queue, batch in rows:
            if at < batch.num_rows:
                offset = batch.column(_OFFSET)[at].as_py()
                return RequestRefused(
                    error.code, f"message {queue} offset {offset} was refused: {error.reasons[first]}"
                )
            at -= batch.num_rows
    return error
