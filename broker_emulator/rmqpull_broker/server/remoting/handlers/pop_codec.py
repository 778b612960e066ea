"""The messages of a pop as records, and the texts about their queues and offsets (rules 3.17.1, 4.7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from rmqpull_broker.core.messages.columns import to_rows
from rmqpull_broker.core.messages.remoting_row_records import encode_few_records
from rmqpull_broker.core.model import StoredMessage
from rmqpull_broker.core.popping.receipts import TopicKind
from rmqpull_broker.core.popping.request import PoppedPart, PopResult
from rmqpull_broker.server.remoting.calls import RemotingService
from rmqpull_broker.server.remoting.wire.pop_headers import PopMessageRequestHeader
from rmqpull_broker.server.remoting.wire.pop_infos import ExtraInfo, QueuePopped, write_extra_info
from rmqpull_proto.remoting.properties import POP_CHECK


def describe_part(part: PoppedPart) -> QueuePopped:
    """Returns what the texts of a response say about a queue."""
    return QueuePopped(
        int(part.topic_kind), part.queue.queue_id, part.start_offset, part.offsets, part.consumed_times or None
    )


def encode_messages(
    service: RemotingService, header: PopMessageRequestHeader, result: PopResult
) -> Iterator[memoryview]:
    """Yields the records of all messages, in the order of the queues."""
    for part in result.parts:
        if part.topic_kind is TopicKind.NORMAL:
            yield from _read_records(service, part)
        else:
            yield _encode_retries(service, header, result, part)


def _read_records(service: RemotingService, part: PoppedPart) -> Iterator[memoryview]:
    pieces = service.record_pulls.pieces
    for offset in part.offsets:
        piece = pieces.find(part.queue, offset)
        if piece is not None:
            data, ends, *_ = piece.records
            at = offset - piece.first_offset
            yield data[ends[at] : ends[at + 1]]


def _encode_retries(
    service: RemotingService, header: PopMessageRequestHeader, result: PopResult, part: PoppedPart
) -> memoryview:
    """Encodes messages that are redelivered as if they were in the topic itself. Each has its receipt as a property."""
    state, queue = service.state, part.queue
    receipt = ExtraInfo(
        part.start_offset, result.pop_time_ms, result.invisible_ms, result.revive_queue_id, queue.broker_name
    )

    def add_receipt(row: StoredMessage) -> StoredMessage:
        text = write_extra_info(receipt, int(part.topic_kind), queue.queue_id, row.queue_offset)
        properties = {**row.message.system_properties, POP_CHECK: text}
        return replace(row, message=replace(row.message, system_properties=properties))

    rows = [add_receipt(row) for row in to_rows(part.pulled.batches)]
    first = state.physical_offsets.find(queue, 0)
    return encode_few_records(rows, header.topic, queue.queue_id, first, state.properties).data
