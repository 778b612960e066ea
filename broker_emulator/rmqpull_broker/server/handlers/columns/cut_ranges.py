"""CutRanges: where ranges of queues are to be cut so that no part has more than so many bytes."""

from __future__ import annotations

import asyncio
from itertools import islice

from rmqpull_broker.core.pulling.bounds import cut_by_bytes
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.codec import column_queue_from
from rmqpull_broker.server.wire.status import OK
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc

PARTS_MAX = 1024
"""Parts in an answer; the rest is asked for again."""
_PARTS_AT_ONCE = 16
"""Parts of a range after which the event loop has its turn: each may need a chunk from the disk."""


async def answer(service: Service, request: rpc.CutRangesRequest, caller: Caller) -> rpc.CutRangesResponse:
    """Of a queue that does not exist there are no parts."""
    left, ranges = PARTS_MAX, []
    for asked in request.ranges:
        cut = await _cut(service, asked, left)
        left -= len(cut.parts)
        ranges.append(cut)
    return rpc.CutRangesResponse(status=OK, ranges=ranges)


async def _cut(service: Service, asked: rpc.RangeToCut, left: int) -> rpc.CutRange:
    queue, at = column_queue_from(asked.queue), asked.from_offset
    wanted = asked.parts_max if asked.parts_max > 0 else PARTS_MAX + 1
    cut = rpc.CutRange()
    while at < asked.until_offset and len(cut.parts) < wanted:
        if len(cut.parts) == left:
            cut.has_more = True
            break
        count = min(_PARTS_AT_ONCE, wanted - len(cut.parts), left - len(cut.parts))
        parts = list(islice(cut_by_bytes(service.state, queue, at, asked.until_offset, asked.byte_max), count))
        cut.parts.extend(rpc.RangePart(until_offset=part.until_offset, byte_count=part.byte_count) for part in parts)
        await asyncio.sleep(0)
        if len(parts) < count:
            break
        at = parts[-1].until_offset
    return cut
