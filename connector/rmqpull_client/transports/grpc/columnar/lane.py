"""Reads ranges in columns. Each pull is for one queue, or for several small ranges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from rmqpull_client.loss import Loss, OnLoss, find_loss, make_range_loss
from rmqpull_client.model import Bounds, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.grpc.calls import encode_filter
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.reading_ahead import LANES_AT_ONCE, Piece
from rmqpull_client.transports.grpc.retry import Cancellation
from rmqpull_client.transports.message_filters import columns_to_pull, keep_matching_tags
from rmqpull_client.transports.port import QueueRows, log_reset
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.columns_response import ReceivedColumns
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from rmqpull_proto.rpc import COLUMNS

PULL_ROWS = 16_384
PULL_BYTES = 8 << 20
"""The size limit of one response, unless one message is larger. It holds two of the broker's stored batches, which
become two batches for the consumer. Besides its bytes, a call costs each side about a millisecond."""
PULL = replace(COLUMNS.methods["PullColumns"], response=ReceivedColumns)
"""The call, with its response as it was received."""
_SKIPPED = "skips these offsets; a stream looks at the queue again with its next micro-batch"
_COMPLETE = (v1.PullStatus.FOUND, v1.PullStatus.NOT_REACHED, v1.PullStatus.NO_MATCHED_MESSAGE)
"""The statuses of pulls that examined every message from their offset up to ``next_offset``."""


def make_lanes(ranges: Sequence[QueueRange]) -> Iterator[list[QueueRange]]:
    """Yields the ranges of each lane. If there are many queues, small ranges share a lane: one pull can read them.

    A slow queue then delays at most an eighth of the others.
    """
    unread = [entry for entry in ranges if entry.from_offset < entry.until_offset]
    queues_max = -(-len(unread) // LANES_AT_ONCE)
    lane: list[QueueRange] = []
    for entry in unread:
        if lane and (len(lane) == queues_max or sum(other.size for other in lane) + entry.size > PULL_ROWS):
            yield lane
            lane = []
        lane.append(entry)
    if lane:
        yield lane


@dataclass
class ColumnarLane:
    """The pulls of some ranges. See :class:`rmqpull_client.transports.grpc.reading_ahead.Lane`."""

    channel: BrokerChannel
    group: str
    ranges: list[QueueRange]
    columns: Sequence[str]
    creation_ids: Mapping[str, str]
    message_filter: MessageFilter
    bytes_max: int
    _cancellation: Cancellation = field(default_factory=Cancellation)

    @property
    def is_done(self) -> bool:
        """Whether all ranges have been read."""
        return not self.ranges

    def pull(self) -> Piece[list[QueueRows]]:
        """Pulls once from all ranges that are left."""
        columns = columns_to_pull(self.columns, self.message_filter)
        request = make_pull_request(
            self.group, self.ranges, columns, self.creation_ids, self.message_filter, self.bytes_max
        )
        response = self.channel.start(PULL, request, self._cancellation)()
        asked, losses = self.ranges, list[Loss]()
        is_filtered = not self.message_filter.keeps_everything
        self.ranges = [
            QueueRange(entry.queue, at, entry.until_offset)
            for entry, result in zip(asked, response.queues, strict=True)
            if (at := _find_next_offset(self.group, entry, result, is_filtered, losses.append)) < entry.until_offset
        ]
        rows = keep_matching_tags(_decode_rows(asked, response), self.message_filter)
        row_count = sum(batch.num_rows for entry in rows for batch in entry.batches)
        return Piece(rows, row_count, len(response.arrow_ipc), losses)

    def cancel(self) -> None:
        """Ends the pull in flight."""
        self._cancellation.cancel()


def encode_queue(queue: MessageQueue) -> v1.Queue:
    """Returns a queue in the form of ``rmqpull.v1``."""
    return v1.Queue(topic=queue.topic, broker_name=queue.broker_name, queue_id=queue.queue_id)


def is_reset(result: v1.QueuePulled) -> bool:
    """Whether the result of a queue only reports that the consumer offset was reset."""
    return result.pull_status == v1.PullStatus.OFFSET_RESET


def make_pull_request(
    group: str,
    ranges: Sequence[QueueRange],
    columns: Sequence[str],
    creation_ids: Mapping[str, str],
    message_filter: MessageFilter,
    bytes_max: int = 0,
) -> v1.PullColumnsRequest:
    """Returns one pull of all ranges. Arguments: see :meth:`rmqpull_client.transports.port.BrokerClient.read`."""
    queues = [
        v1.QueuePull(
            queue=encode_queue(queue),
            offset=from_offset,
            until_offset=until_offset,
            creation_id=creation_ids.get(queue.topic),
        )
        for queue, from_offset, until_offset in ranges
    ]
    return v1.PullColumnsRequest(
        group=group,
        queues=queues,
        filter_expression=encode_filter(message_filter),
        columns=columns,
        max_rows=PULL_ROWS,
        max_bytes=bytes_max or PULL_BYTES,
    )


def _find_next_offset(group: str, entry: QueueRange, result: v1.QueuePulled, is_filtered: bool, on_loss: OnLoss) -> int:
    """Returns the offset at which a range continues after a pull, and reports the losses that the pull reveals."""
    queue, from_offset, until_offset = entry
    if is_reset(result):
        log_reset(group, queue, result.next_offset)
        return from_offset
    if result.pull_status == v1.PullStatus.NO_MATCHED_LOGIC_QUEUE:
        on_loss(make_range_loss(entry))
        return until_offset
    is_complete = result.pull_status in _COMPLETE
    bounds = Bounds(result.min_offset, result.max_offset)
    if not is_complete and (loss := _find_loss_in_range(entry, bounds)) is not None:
        on_loss(loss)
        return loss.until_offset
    missing = result.next_offset - from_offset - result.row_count
    # After a complete pull, missing messages may be those that the filter dropped. Otherwise they are lost.
    if missing > 0 and not (is_filtered and is_complete):
        text = f"{missing} messages of queue {queue} in [{from_offset}, {result.next_offset}) are lost."
        on_loss(Loss(queue, result.next_offset - missing, result.next_offset, text))
    return result.next_offset


def _find_loss_in_range(entry: QueueRange, bounds: Bounds) -> Loss | None:
    """Returns the part of a range that is outside the bounds. All its messages existed when the range was planned."""
    queue, from_offset, until_offset = entry
    if from_offset < bounds.min_offset:
        loss = find_loss(queue, from_offset, bounds)
        return loss and loss._replace(until_offset=min(bounds.min_offset, until_offset))
    loss = find_loss(queue, until_offset, bounds)
    return loss and loss._replace(from_offset=max(from_offset, bounds.max_offset), resume=_SKIPPED)


def _decode_rows(asked: Sequence[QueueRange], response: ReceivedColumns) -> list[QueueRows]:
    """Returns the rows of a response by queue. The stream has the queues in the order of the request."""
    batches = read_stream(response.arrow_ipc, PULLABLE_SCHEMA)
    if not batches:
        return []
    table = pa.Table.from_batches(batches)
    rows, first_row = [], 0
    for entry, result in zip(asked, response.queues, strict=True):
        if result.row_count:
            rows.append(QueueRows(entry.queue, table.slice(first_row, result.row_count).to_batches()))
            first_row += result.row_count
    return rows
