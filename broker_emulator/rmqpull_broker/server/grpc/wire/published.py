"""Reads a published batch of messages from an Arrow IPC stream, and checks its limits."""

from __future__ import annotations

import pyarrow as pa

from rmqpull_broker.core.errors import BadRequest, MessageCorrupted
from rmqpull_broker.core.messages.columns import concat_batches
from rmqpull_broker.core.sending.publishing import AutoCreation, Published, TopicPart
from rmqpull_broker.server.limits import (
    PUBLISH_BATCHES_MAX,
    PUBLISH_BYTES_MAX,
    PUBLISH_ROWS_MAX,
    PUBLISH_TOPICS_MAX,
)
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PUBLISH_SCHEMA
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc
from rmqpull_proto.rmqpull.v1 import stages_pb2


def published_from(
    request: rpc.PublishColumnsRequest | stages_pb2.StageColumnsRequest,
    born_host: str,
    creation: AutoCreation | None = None,
) -> Published:
    """Reads the batch of a request, which may be a ``ReceivedBatch``.

    Raises what :func:`_read_batch` raises, and BadRequest for invalid parts and slices.
    """
    if request.parts and request.topic:
        raise BadRequest(f"the batch has both the topic {request.topic} and parts; leave one out")
    if len(request.parts) > PUBLISH_TOPICS_MAX:
        raise BadRequest(f"a batch of {len(request.parts)} topics is above the max {PUBLISH_TOPICS_MAX}; split it")
    if request.parts and request.slice_rows_min:
        raise BadRequest(
            "the batch has parts, so slice_rows_min belongs to each of them; leave out that of the request"
        )
    for each in (request, *request.parts):
        if not 0 <= each.slice_rows_min <= PUBLISH_ROWS_MAX:
            raise BadRequest(
                f"slice_rows_min {each.slice_rows_min} of topic {each.topic} is not from 0 to {PUBLISH_ROWS_MAX}"
            )
    parts = [TopicPart(part.topic, part.row_count, part.slice_rows_min) for part in request.parts]
    by_keys = request.queue_selector == rpc.BY_KEYS
    rows = _read_batch(request.arrow_ipc)
    return Published(request.topic, rows, born_host, creation, by_keys, parts, request.slice_rows_min)


def _read_batch(arrow_ipc: bytes | memoryview) -> pa.RecordBatch:
    """Reads a stream as one batch. Raises BadRequest above the limits, and MessageCorrupted for anything but rows of
    the publish schema.
    """
    if len(arrow_ipc) > PUBLISH_BYTES_MAX:
        raise BadRequest(f"a batch of {len(arrow_ipc)} bytes is above the max {PUBLISH_BYTES_MAX}; split it")
    try:
        batches = read_stream(arrow_ipc, PUBLISH_SCHEMA, required=["body"], batches_max=PUBLISH_BATCHES_MAX)
    except ValueError as error:
        raise MessageCorrupted(f"cannot read the batch: {error}") from None
    if not batches:
        raise MessageCorrupted("no message to send")
    batch = batches[0] if len(batches) == 1 else concat_batches(batches)
    if batch.num_rows > PUBLISH_ROWS_MAX:
        raise BadRequest(f"a batch of {batch.num_rows} rows is above the max {PUBLISH_ROWS_MAX}; split it")
    return batch
