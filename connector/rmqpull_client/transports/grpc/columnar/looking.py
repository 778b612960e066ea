"""Looks at single messages of many queues in columns, to detect that a queue's history was rewritten."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rmqpull_client.errors import RmqpullError
from rmqpull_client.model import EVERYTHING, MessageQueue, QueueRange
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.columnar.lane import PULL, is_reset, make_pull_request
from rmqpull_client.transports.looking import COLUMNS, make_witnesses
from rmqpull_client.transports.port import NO_CREATION_IDS, log_reset
from rmqpull_client.witness import Witness
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

PROTOCOL = "columns"
_UNKNOWN = (v1.PullStatus.NOT_REACHED, v1.PullStatus.OFFSET_RESET)


def look_at(
    channel: BrokerChannel, group: str, offsets: Mapping[MessageQueue, int], byte_max: int
) -> dict[MessageQueue, Witness | None]:
    """See :meth:`rmqpull_client.transports.port.BrokerClient.look_at`. All queues are in one call."""
    ranges = [QueueRange(queue, offset, offset + 1) for queue, offset in offsets.items()]
    try:
        response = channel.start(
            PULL, make_pull_request(group, ranges, COLUMNS, NO_CREATION_IDS, EVERYTHING, byte_max)
        )()
    except RmqpullError:
        return {}
    for queue, result in zip(offsets, response.queues, strict=True):
        if is_reset(result):
            log_reset(group, queue, result.next_offset)
    found: dict[MessageQueue, Witness | None] = {
        queue: None
        for queue, result in zip(offsets, response.queues, strict=True)
        if result.pull_status not in _UNKNOWN
    }
    with_message = [queue for queue, result in zip(offsets, response.queues, strict=True) if result.row_count]
    if with_message:
        rows = pa.Table.from_batches(read_stream(response.arrow_ipc, PULLABLE_SCHEMA))
        found |= make_witnesses(with_message, rows, PROTOCOL)
    return {queue: seen for queue, seen in found.items() if seen is None or seen.offset == offsets[queue]}
