"""SendMessageBack: a consumer returns a message that it could not consume (rules 3.10.3)."""

from __future__ import annotations

from rmqpull_broker.core.admin.naming import check_group_name
from rmqpull_broker.core.sending.send_back import SendBack
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc


async def answer(service: Service, request: rpc.SendMessageBackRequest, caller: Caller) -> rpc.SendMessageBackResponse:
    """Answers when the message is kept for its next delivery or among the dead letters, or needs to be neither."""
    check_group_name(request.group)
    times_max = request.max_reconsume_times if request.HasField("max_reconsume_times") else None
    back = SendBack(
        request.group, column_queue_from(request.queue), request.queue_offset, request.delay_level, times_max
    )
    await service.group_commit.execute(lambda draft: service.sender.send_back(draft, back, service.clock_ms()))
    return rpc.SendMessageBackResponse(status=OK)
