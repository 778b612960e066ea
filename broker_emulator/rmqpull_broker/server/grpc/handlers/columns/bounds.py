"""QueryBounds and CutRanges: the bounds of queues, and ranges cut into parts of limited size."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from rmqpull_broker.core.errors import TopicNotFound
from rmqpull_broker.core.model import Bounds, MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.bounds import cut_by_bytes
from rmqpull_broker.server.grpc.long_response import respond
from rmqpull_broker.server.grpc.wire.codec import column_queue_from
from rmqpull_broker.server.grpc.wire.status import OK, make_status
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as rpc

_INT64_MAX = (1 << 63) - 1

_READS_IN_STEPS = 3
"""Attempts to read the bounds of many queues in steps, before they are read in one step."""
PARTS_MAX = 1024
"""Parts in one response; the client requests the rest in another call."""
_PARTS_AT_ONCE = 16
"""Parts after which other calls get a turn, because each part may need a chunk from the disk."""
_RANGES_AT_ONCE = 256
"""Ranges after which they also get one, because ranges may have no parts."""


async def query_bounds(service: Service, request: rpc.QueryBoundsRequest, caller: Caller) -> rpc.QueryBoundsResponse:
    """QueryBounds: returns the bounds of all queues of many topics, all rows of each commit in them or none.

    The entry of a topic that does not exist says so; the other topics are still answered.
    """
    rows_lost = service.state.count_lost_rows(request.query_id) if request.query_id else {}
    found = await _read_bounds(service, [wanted.topic for wanted in request.topics])
    parts = (rpc.QueryBoundsResponse(topics=[_topic_bounds(topic, rows_lost)]) for topic in found)
    head = rpc.QueryBoundsResponse(status=OK, instance_id=service.instance_id)
    return await respond(service.slices, head, parts)


class _ReadTopic(NamedTuple):
    """A topic, or why there is none, and the bounds of the queues that consumers see."""

    name: str
    found: TopicConfig | TopicNotFound
    bounds: Sequence[tuple[MessageQueue, Bounds]] = ()


async def _read_bounds(service: Service, topics: Sequence[str]) -> list[_ReadTopic]:
    """Reads all bounds between two commits: in steps as long as no commit comes in between, then in one step."""
    for _ in range(_READS_IN_STEPS):
        commit_count = service.state.stages.commit_count
        found = await service.slices.collect(_read_topic(service, name) for name in topics)
        if service.state.stages.commit_count == commit_count:
            return found
    return [_read_topic(service, name) for name in topics]


def _read_topic(service: Service, name: str) -> _ReadTopic:
    try:
        config = service.state.require_topic(name)
    except TopicNotFound as error:
        return _ReadTopic(name, error)
    queues = service.state.list_readable_queues(config)
    return _ReadTopic(name, config, [(queue, service.state.bounds(queue)) for queue in queues])


def _topic_bounds(topic: _ReadTopic, rows_lost: Mapping[MessageQueue, int]) -> rpc.TopicBounds:
    if isinstance(topic.found, TopicNotFound):
        return rpc.TopicBounds(status=make_status(topic.found), topic=topic.name)
    queues = [_queue_bounds(queue, bounds, rows_lost.get(queue, 0)) for queue, bounds in topic.bounds]
    return rpc.TopicBounds(status=OK, topic=topic.name, creation_id=topic.found.creation_id, queues=queues)


def _queue_bounds(queue: MessageQueue, bounds: Bounds, rows_lost: int) -> rpc.QueueBounds:
    return rpc.QueueBounds(
        broker_name=queue.broker_name,
        queue_id=queue.queue_id,
        min_offset=bounds.min_offset,
        max_offset=bounds.max_offset,
        rows_lost=min(rows_lost, _INT64_MAX),
    )


async def cut_ranges(service: Service, request: rpc.CutRangesRequest, caller: Caller) -> rpc.CutRangesResponse:
    """CutRanges: cuts ranges of queues so that no part has more than a number of bytes.

    A queue that does not exist has no parts.
    """
    left, response = PARTS_MAX, rpc.CutRangesResponse(status=OK)
    for number, wanted in enumerate(request.ranges, 1):
        if number % _RANGES_AT_ONCE == 0:
            await service.slices.pause()
        cut = await _cut(service, wanted, left)
        left -= len(cut.parts)
        response.ranges.append(cut)
    return response


async def _cut(service: Service, wanted: rpc.RangeToCut, left: int) -> rpc.CutRange:
    """Cuts one range into at most ``left`` parts."""
    queue, offset = column_queue_from(wanted.queue), wanted.from_offset
    parts_max = wanted.parts_max if wanted.parts_max > 0 else PARTS_MAX + 1
    cut = rpc.CutRange()
    while offset < wanted.until_offset and len(cut.parts) < parts_max:
        if len(cut.parts) == left:
            cut.has_more = True
            break
        count = min(_PARTS_AT_ONCE, parts_max - len(cut.parts), left - len(cut.parts))
        parts = list(islice(cut_by_bytes(service.state, queue, offset, wanted.until_offset, wanted.byte_max), count))
        cut.parts.extend(rpc.RangePart(until_offset=part.until_offset, byte_count=part.byte_count) for part in parts)
        await asyncio.sleep(0)
        if len(parts) < count:
            break
        offset = parts[-1].until_offset
    return cut
