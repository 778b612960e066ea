"""PublishColumns and SendMessageBack: messages that arrive in columns, and messages that a consumer returns."""

from __future__ import annotations

from rmqpull_broker.core.sending.publishing import DEFAULT_TOPIC_QUEUE_NUMS, AutoCreation
from rmqpull_broker.core.sending.send_back import SendBack
from rmqpull_broker.core.state.names import check_group_name
from rmqpull_broker.server.grpc.wire.codec import column_queue_from, column_queue_to
from rmqpull_broker.server.grpc.wire.published import published_from
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def publish_columns(
    service: Service, request: rpc.PublishColumnsRequest, caller: Caller
) -> rpc.PublishColumnsResponse:
    """PublishColumns: stores a batch of messages, one Arrow IPC stream, as a whole or not at all.

    Responds once the batch is stored, with the offsets of its rows.
    """
    creation = None
    if request.default_topic:
        queue_nums = request.default_topic_queue_nums or DEFAULT_TOPIC_QUEUE_NUMS
        creation = AutoCreation(request.default_topic, queue_nums)
    published = published_from(request, caller.address, creation)
    (checked,) = await service.slices.collect(service.sender.check(published, service.clock_ms()))
    parts = await service.group_commit.execute(
        lambda draft: service.sender.publish(draft, checked, service.clock_ms()), len(request.arrow_ipc)
    )
    ranges = [
        rpc.PublishedRange(queue=column_queue_to(part.queue), first_offset=part.first_offset, row_count=part.row_count)
        for part in parts
    ]
    return rpc.PublishColumnsResponse(status=OK, ranges=ranges)


async def send_message_back(
    service: Service, request: rpc.SendMessageBackRequest, caller: Caller
) -> rpc.SendMessageBackResponse:
    """SendMessageBack: takes back a message that a consumer could not process (rules 3.10.3).

    Responds once the message is stored for its next delivery or as a dead letter, or when neither is necessary.
    """
    check_group_name(request.group)
    times_max = request.max_reconsume_times if request.HasField("max_reconsume_times") else None
    back = SendBack(
        request.group, column_queue_from(request.queue), request.queue_offset, request.delay_level, times_max
    )
    await service.group_commit.execute(lambda draft: service.sender.send_back(draft, back, service.clock_ms()))
    return rpc.SendMessageBackResponse(status=OK)
