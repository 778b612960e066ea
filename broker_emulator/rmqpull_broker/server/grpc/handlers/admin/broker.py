"""GetProperties, GetClock, AdvanceClock and ExpireNow: the broker as a whole."""

from __future__ import annotations

from collections.abc import Iterator

from rmqpull_broker import __version__
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.properties import list_declared
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


async def get_properties(
    service: Service, request: rpc.GetPropertiesRequest, caller: Caller
) -> rpc.GetPropertiesResponse:
    """GetProperties: returns every property that has an effect, set or not."""
    properties = [
        rpc.Property(
            name=entry.name,
            value=_text(getattr(service.state.properties, entry.field)),
            default_value=_text(entry.default),
            unit=entry.unit,
            doc=entry.doc,
        )
        for entry in sorted(list_declared(), key=lambda entry: entry.name)
    ]
    return rpc.GetPropertiesResponse(
        status=OK, version=__version__, broker_names=service.state.broker_names, properties=properties
    )


def _text(value: bool | int | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


async def get_clock(service: Service, request: rpc.GetClockRequest, caller: Caller) -> rpc.GetClockResponse:
    """GetClock: returns the broker's time, the newest store time, and whether the clock is a manual one."""
    mover, newest_ms = service.clock_mover, service.state.find_newest_message_ms()
    return rpc.GetClockResponse(status=OK, now_ms=mover.now_ms(), is_manual=mover.is_manual, newest_store_ms=newest_ms)


async def advance_clock(service: Service, request: rpc.AdvanceClockRequest, caller: Caller) -> rpc.AdvanceClockResponse:
    """AdvanceClock: advances a manual clock. Responds once everything that fell due is done."""
    target = request.WhichOneof("target")
    if target is None:
        raise BadRequest("give a duration or a time to advance the clock")
    by_ms = request.by_ms if target == "by_ms" else request.to_ms - service.clock_mover.now_ms()
    return rpc.AdvanceClockResponse(status=OK, now_ms=await service.clock_mover.advance(by_ms))


async def expire_now(service: Service, request: rpc.ExpireNowRequest, caller: Caller) -> rpc.ExpireNowResponse:
    """ExpireNow: applies retention at once. Responds once the new min offsets are stored.

    Retention deletes whole segments, but never the one that is being written.
    """
    before = await _sum_min_offsets(service)
    await service.group_commit.expire(service.clock_ms())
    return rpc.ExpireNowResponse(status=OK, expired_messages=await _sum_min_offsets(service) - before)


async def _sum_min_offsets(service: Service) -> int:
    state = service.state

    def add_topics() -> Iterator[int]:
        for topic in list(state.topics.values()):
            yield sum(state.bounds(queue).min_offset for queue in state.list_readable_queues(topic))

    return sum(await service.slices.collect(add_topics()))
