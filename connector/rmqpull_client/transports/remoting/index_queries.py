"""Look-ups of messages by key and id, in the index that brokers keep (rules 4.6), as Java's MQAdminImpl does.

An index has hashes of topic and key, so a broker also returns other messages: the client leaves them out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from ipaddress import ip_address
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.connection import wrap_name
from rmqpull_client.errors import Unserved
from rmqpull_client.light_queues import is_light
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.remoting.messages.record_numbers import read_numbers
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import RecordTable, locate_records
from rmqpull_client.transports.remoting.network.calls import Call
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from rmqpull_client.transports.remoting.network.cluster import Target
from rmqpull_client.transports.remoting.network.exchange import Exchange
from rmqpull_client.transports.remoting.network.failures import make_bad_body_error, make_refusal
from rmqpull_client.transports.tools_port import IndexedMessages
from rmqpull_proto.remoting import record_layout as layout
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError

KEY_COUNT_MAX = 64
"""The most messages that a broker returns for a key: its maxMsgsNumBatch, by default."""
ID_COUNT_MAX = 32
"""The most that it returns for an id of a client, whatever the request says: its defaultQueryMaxNum, by default."""
INDEX_STEP_MS = 1_000
"""An index has store times in whole seconds, rounded down."""
_ALWAYS_MS = (1 << 63) - 1
_FOUND_OR_NOT: Mapping[int, Sequence[int]] = {
    RequestCode.QUERY_MESSAGE: (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND),
    RequestCode.VIEW_MESSAGE_BY_ID: (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR),
}
_NO_MESSAGE = "can not find message by the offset"
_OFFSET_ID = re.compile("([0-9A-Fa-f]{8}|[0-9A-Fa-f]{32})([0-9A-Fa-f]{8})([0-9A-Fa-f]{16})")
_PORT_MAX = 0xFFFF


class OffsetId(NamedTuple):
    """The id that a broker gives a message: its own address, as text, and the message's physical offset."""

    host: str
    port: int
    physical_offset: int


def parse_offset_id(text: str) -> OffsetId | None:
    """Returns what an id of a broker says; None for another id.

    An id of a client has 32 hexadecimal digits too. Its process id is where the other has the port with four bytes, so
    few of them look like an id of a broker.
    """
    found = _OFFSET_ID.fullmatch(text)
    if found is None:
        return None
    host, port, offset = (bytes.fromhex(part) for part in found.groups())
    parsed = OffsetId(str(ip_address(host)), int.from_bytes(port, "big"), int.from_bytes(offset, "big"))
    return parsed if parsed.port <= _PORT_MAX else None


class IndexQueries:
    """Looks up messages of one cluster. The method raises what calls of a channel raise."""

    def __init__(self, channel: RemotingChannel) -> None:
        self._channel = channel

    def query(
        self, queues: Sequence[MessageQueue], key: str | None, msg_id: str | None, begin_ms: int
    ) -> IndexedMessages:
        """See :meth:`rmqpull_client.transports.tools_port.ToolCalls.query_messages`."""
        topic = queues[0].topic
        if is_light(topic):
            raise Unserved("NO_INDEX", "brokers keep no index of light message queues")
        requests = self._make_requests(queues, key, msg_id, begin_ms)
        try:
            with Exchange(self._channel) as exchange:
                calls = [
                    exchange.start(target, command, accepted=_FOUND_OR_NOT[command.code])
                    for target, command in requests
                ]
                exchange.wait(calls)
        except Unserved:
            what = "proxy" if self._channel.cluster.is_proxied else "server"
            raise Unserved("NO_INDEX", f"the {what} at {self._channel.endpoints} keeps no index") from None
        name = wrap_name(self._channel.connection.namespace, topic)
        count_max = KEY_COUNT_MAX if msg_id is None else ID_COUNT_MAX
        found = list[_Found]()
        may_lack_older = False
        for call in calls:
            table = _locate(call)
            may_lack_older |= len(table) >= count_max
            is_viewed = call.command.code == RequestCode.VIEW_MESSAGE_BY_ID
            selected = _select(table, name, key, None if is_viewed else msg_id, begin_ms)
            found.append(_Found(call.target.broker_name, *selected))
        rows = ((queue, _list_rows(found, queue)) for queue in queues)
        return IndexedMessages({queue: batch for queue, batch in rows if batch.num_rows}, may_lack_older)

    def _make_requests(
        self, queues: Sequence[MessageQueue], key: str | None, msg_id: str | None, begin_ms: int
    ) -> list[tuple[Target, RemotingCommand]]:
        topic, brokers = queues[0].topic, sorted({queue.broker_name for queue in queues})
        fields = {
            "topic": topic,
            "key": str(key if msg_id is None else msg_id),
            "maxNum": str(KEY_COUNT_MAX),
            "beginTimestamp": str(max(0, begin_ms - INDEX_STEP_MS)),
            "endTimestamp": str(_ALWAYS_MS),
        }
        if msg_id is not None:
            fields["_UNIQUE_KEY_QUERY"] = "true"
        command = RemotingCommand(RequestCode.QUERY_MESSAGE, fields)
        requests = [(Target(topic, name, may_use_slave=True), command) for name in brokers]
        if msg_id is not None and (parsed := parse_offset_id(msg_id)) is not None:
            viewing = {"topic": topic, "offset": str(parsed.physical_offset)}
            command = RemotingCommand(RequestCode.VIEW_MESSAGE_BY_ID, viewing)
            requests.append((self._find_broker(topic, brokers, parsed), command))
        return requests

    def _find_broker(self, topic: str, brokers: Iterable[str], wanted: OffsetId) -> Target:
        """Returns the broker that has this address.

        Others are not asked: what they have at this physical offset need not be the beginning of a message. Raises
        Unserved.
        """
        route = self._channel.routes.get_route(topic)
        for name in brokers:
            for broker_id, address in route.get_addresses(name).items():
                if _parse_address(address) == wanted[:2]:
                    return Target(topic, name, broker_id, may_use_slave=True)
        raise Unserved("NO_INDEX", f"no broker of topic {topic} has address {wanted.host}:{wanted.port} of this id")


def _parse_address(address: str) -> tuple[str, int] | None:
    host, _, port = address.rpartition(":")
    try:
        return str(ip_address(host.strip("[]"))), int(port)
    except ValueError:  # a name
        return None


def _locate(call: Call) -> RecordTable:
    """Returns the messages of a response. Raises RequestRefused."""
    response = call.get_response()
    assert call.place is not None, "it has responded"
    if response.code == ResponseCode.SYSTEM_ERROR and not (response.remark or "").startswith(_NO_MESSAGE):
        raise make_refusal(call.place, call.command, response)
    body = response.body if response.code == ResponseCode.SUCCESS else b""
    table = locate_records(body, np.zeros(1, np.int64), np.full(1, len(body), np.int64))
    for damaged in table.damaged:
        error = WireError(f"a message in it is damaged: {damaged.reason}")
        raise make_bad_body_error(call.place, call.command, error)
    return table


class _Found(NamedTuple):
    """Messages of a broker, and the ids of their queues."""

    broker_name: str
    rows: pa.RecordBatch
    queue_ids: pa.Array


def _select(
    table: RecordTable, topic: str, key: str | None, msg_id: str | None, begin_ms: int
) -> tuple[pa.RecordBatch, pa.Array]:
    """Returns the messages that match, and the ids of their queues."""
    table = table.select(np.array([name == topic for name in list_topics(table)], np.bool_))
    queue_ids = pa.array(read_numbers(table.data, table.positions + layout.QUEUE_ID_AT, ">i4"))
    rows = decode_columns(table)
    mask = pc.greater_equal(rows.column("storeTimestamp").cast(pa.int64()), begin_ms * 1_000)
    if key is not None:
        has_key = pa.array([key in (keys or ()) for keys in rows.column("keys").to_pylist()], pa.bool_())
        mask = pc.and_(mask, has_key)
    if msg_id is not None:
        mask = pc.and_(mask, pc.equal(rows.column("msgId"), msg_id))
    return rows.filter(mask), queue_ids.filter(mask)


def list_topics(table: RecordTable) -> list[str]:
    """Returns the topic of each record, of the few dozen that a query returns."""
    magics = read_numbers(table.data, table.positions + layout.MAGIC_AT, ">u4")
    starts = table.body_ends + np.where(magics == layout.LONG_TOPIC_MAGIC, 2, 1)
    ends = table.property_starts - 2
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    return [table.data[start:end].tobytes().decode(errors="replace") for start, end in pairs]


def _list_rows(found: Iterable[_Found], queue: MessageQueue) -> pa.RecordBatch:
    """Returns the rows of a queue in order, each once: a message whose key is its id comes twice."""
    own = [
        each.rows.filter(pc.equal(each.queue_ids, queue.queue_id))
        for each in found
        if each.broker_name == queue.broker_name
    ]
    rows = pa.Table.from_batches(own)
    _, first = np.unique(rows.column("queueOffset").to_numpy(), return_index=True)
    (batch,) = rows.take(pa.array(first)).combine_chunks().to_batches() or own[:1]
    return batch
