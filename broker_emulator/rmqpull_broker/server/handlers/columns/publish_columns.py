"""PublishColumns: a batch of messages as one Arrow IPC stream, kept whole or not at all."""

from __future__ import annotations

from rmqpull_broker.core.sending.sending import DEFAULT_TOPIC_QUEUE_NUMS, AutoCreation
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_to
from rmqpull_broker.server.wire.published import published_of
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def answer(service: Service, request: rpc.PublishColumnsRequest, caller: Caller) -> rpc.PublishColumnsResponse:
    """Answers when the batch is kept, with the offsets that its rows got."""
    creation = None
    if request.default_topic:
        queue_nums = request.default_topic_queue_nums or DEFAULT_TOPIC_QUEUE_NUMS
        creation = AutoCreation(request.default_topic, queue_nums)
    published = published_of(request, caller.host, creation)
    parts = await service.group_commit.execute(
        lambda draft: service.sender.publish(draft, published, service.clock_ms()), len(request.arrow_ipc)
    )
    ranges = [
        rpc.PublishedRange(queue=column_queue_to(part.queue), first_offset=part.first_offset, row_count=part.row_count)
        for part in parts
    ]
    return rpc.PublishColumnsResponse(status=OK, ranges=ranges)
