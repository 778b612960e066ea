"""ExpireNow: applies retention now instead of at its next turn."""

from __future__ import annotations

from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def answer(service: Service, request: rpc.ExpireNowRequest, caller: Caller) -> rpc.ExpireNowResponse:
    """Answers when the new min offsets are kept. Whole segments go, and never the one that is being written."""
    before = _min_offsets(service)
    await service.group_commit.expire(service.clock_ms())
    return rpc.ExpireNowResponse(status=OK, expired_messages=_min_offsets(service) - before)


def _min_offsets(service: Service) -> int:
    state = service.state
    return sum(
        state.bounds(queue).min_offset for topic in state.topics.values() for queue in state.readable_queues(topic)
    )
