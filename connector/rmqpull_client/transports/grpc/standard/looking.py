"""Looks at single messages of many queues, to detect that a queue's history was rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import pyarrow as pa

from rmqpull_client.errors import QueueNotFound, RmqpullError, TopicNotFound
from rmqpull_client.model import EVERYTHING, MessageQueue
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.standard.lane import PULL, make_pull_request, parse_pull_response
from rmqpull_client.transports.grpc.standard.rows import make_batch
from rmqpull_client.transports.looking import COLUMNS, LookLimit, make_witnesses
from rmqpull_client.transports.port import log_reset
from rmqpull_client.witness import Witness
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc

PROTOCOL = "standard"
IN_FLIGHT_MAX = 50


def look_at(
    channel: BrokerChannel, group: str, offsets: Mapping[MessageQueue, int], byte_max: int
) -> dict[MessageQueue, Witness | None]:
    """See :meth:`rmqpull_client.transports.port.BrokerClient.look_at`. Each queue takes one call."""
    found: dict[MessageQueue, Witness | None] = {}
    left, limit = iter(offsets.items()), LookLimit(byte_max, IN_FLIGHT_MAX)
    while asked := dict(islice(left, limit.count_next())):
        pulls = [
            channel.start_stream(PULL, make_pull_request(group, queue, offset, 1, EVERYTHING))
            for queue, offset in asked.items()
        ]
        messages: dict[MessageQueue, v2.Message] = {}
        for (queue, offset), pull in zip(asked.items(), pulls, strict=True):
            try:
                _take_in(channel.endpoints, group, queue, offset, pull(), found, messages)
            except (TopicNotFound, QueueNotFound):
                found[queue] = None
            except RmqpullError:
                continue
        limit.add(len(message.body) for message in messages.values())
        if messages:
            rows = pa.Table.from_batches([make_batch(list(messages.values()), COLUMNS)])
            found |= make_witnesses(list(messages), rows, PROTOCOL)
    return found


def _take_in(
    endpoints: str,
    group: str,
    queue: MessageQueue,
    offset: int,
    parts: Sequence[rpc.PullMessageResponse],
    found: dict[MessageQueue, Witness | None],
    messages: dict[MessageQueue, v2.Message],
) -> None:
    """Records the message of a response, or that the queue has none at the offset. Raises RequestRefused."""
    response = parse_pull_response(endpoints, parts)
    if response.next_offset is None:
        return  # it ended early
    if response.is_reset:
        log_reset(group, queue, response.next_offset)
        return
    found[queue] = None
    for message in response.messages:
        if message.system_properties.queue_offset == offset:
            messages[queue] = message
