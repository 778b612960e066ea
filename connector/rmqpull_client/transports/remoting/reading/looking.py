"""Looks at single messages of many queues, to detect that a queue's history was rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa

from rmqpull_client.light_queues import name_light
from rmqpull_client.model import EVERYTHING, MessageQueue
from rmqpull_client.transports.looking import COLUMNS, LookLimit, make_witnesses
from rmqpull_client.transports.port import log_reset
from rmqpull_client.transports.remoting.messages.light_offsets import set_light_offsets
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.network.exchange import ANY_CODE, Exchange
from rmqpull_client.transports.remoting.network.servers import Servers
from rmqpull_client.transports.remoting.reading.pulls import ReceivedPull, Step, judge, make_pull
from rmqpull_client.witness import Witness
from rmqpull_proto.remoting.codes import ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand

PROTOCOL = "remoting"
IN_FLIGHT_MAX = 250
"""The pulls that are in flight at the same time."""


def look_at(
    servers: Servers, group: str, offsets: Mapping[MessageQueue, int], byte_max: int
) -> dict[MessageQueue, Witness | None]:
    """See :meth:`rmqpull_client.transports.port.BrokerClient.look_at`. Only masters are asked."""
    found: dict[MessageQueue, Witness | None] = {}
    left, limit = iter(offsets.items()), LookLimit(byte_max, IN_FLIGHT_MAX)
    while asked := dict(islice(left, limit.count_next())):
        bodies: dict[MessageQueue, bytes] = {}
        for (queue, offset), response in zip(asked.items(), _pull(servers, group, asked), strict=True):
            if response is not None:
                _take_in(group, queue, offset, response, found, bodies)
        limit.add(map(len, bodies.values()))
        found |= _decode(asked, bodies)
    return found


def _pull(servers: Servers, group: str, asked: Mapping[MessageQueue, int]) -> list[RemotingCommand | None]:
    """Pulls one message of each queue. Queues whose broker does not answer the first time have no response."""
    with Exchange(servers) as exchange:
        calls = [
            exchange.start(
                Target.of(queue),
                make_pull(group, queue, offset, 1, EVERYTHING),
                accepted=ANY_CODE,
                is_tried_once=True,
            )
            for queue, offset in asked.items()
        ]
        while not all(call.is_done for call in calls):
            exchange.advance()
        return [_get_response(call) for call in calls]


def _get_response(call: Call) -> RemotingCommand | None:
    is_answer = call.response is not None and call.place is not None and not call.place.is_slave
    return call.response if is_answer else None


def _take_in(
    group: str,
    queue: MessageQueue,
    offset: int,
    response: RemotingCommand,
    found: dict[MessageQueue, Witness | None],
    bodies: dict[MessageQueue, bytes],
) -> None:
    """Records the message of a response, or that there is none. A refusal and a reset of the group show neither."""
    if response.code == ResponseCode.SUCCESS:
        bodies[queue] = bytes(response.body)
        return
    step = judge(_parse(response), offset, offset + 1, is_filtered=False, is_slave=False).step
    if step is Step.RESET:
        log_reset(group, queue, _parse(response).next_offset)
    elif step in (Step.LOST, Step.QUEUE_LOST):
        found[queue] = None


def _parse(response: RemotingCommand) -> ReceivedPull:
    def read(name: str) -> int:
        text = response.fields.get(name, "")
        return int(text) if text.isascii() and text.isdecimal() else -1

    next_offset, low, high = (read(name) for name in ("nextBeginOffset", "minOffset", "maxOffset"))
    return ReceivedPull(response.opaque, response.code, next_offset, low, high, -1, 0, response.remark or "")


def _decode(
    asked: Mapping[MessageQueue, int], bodies: Mapping[MessageQueue, bytes]
) -> dict[MessageQueue, Witness | None]:
    """Returns the witnesses. A response without a message of the wanted offset shows that there is none."""
    if not bodies:
        return {}
    queues: Sequence[MessageQueue] = list(bodies)
    ends = np.cumsum([len(body) for body in bodies.values()], dtype=np.int64)
    starts = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
    table = locate_records(b"".join(bodies.values()), starts, ends)
    table = set_light_offsets(table, [name_light(queue.topic) for queue in queues])
    wanted = np.array([asked[queue] for queue in queues], np.int64)
    table = table.select(table.queue_offsets == wanted[table.body_indexes])
    first = np.unique(table.body_indexes, return_index=True)[1]
    table = table.select(first)
    rows = pa.Table.from_batches([decode_columns(table, COLUMNS)]) if len(table) else None
    witnesses = {} if rows is None else make_witnesses([queues[at] for at in table.body_indexes], rows, PROTOCOL)
    return {queue: witnesses.get(queue) for queue in queues}
