"""Look-ups of messages: VIEW_MESSAGE_BY_ID and QUERY_MESSAGE (rules 4.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from rmqpull_broker.core.errors import InternalError, RequestFailed
from rmqpull_broker.core.pulling.key_queries import COUNT_MAX, Found, KeyQuery, cut_to_bytes, find_message, search
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.wire.query_headers import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand

UNIQUE_KEY_COUNT = 32
"""``defaultQueryMaxNum``: how many messages a query by message id returns, whatever it requests."""


def view_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """VIEW_MESSAGE_BY_ID. The topic does not matter."""
    offset = call.read_header(ViewMessageRequestHeader).offset
    record = find_message(service.state, call.site.broker_name, offset)
    if record is None:
        raise InternalError(f"can not find message by the offset, {offset}")
    return call.respond(body=record)


async def query_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """QUERY_MESSAGE. The key may be one of a message's keys or its id, whatever kind the request names."""
    header = call.read_header(QueryMessageRequestHeader)
    count_max = UNIQUE_KEY_COUNT if header.unique_key_query == "true" else header.max_num
    if count_max < 0:
        raise RequestFailed(f"the query asks for {count_max} messages")
    query = KeyQuery(header.topic, header.key, min(count_max, COUNT_MAX), header.begin_timestamp, header.end_timestamp)
    found: list[Found] = []
    for newest_now in search(service.state, call.site.broker_name, query):
        found = newest_now
        await asyncio.sleep(0)
    if not found:
        return call.respond(
            QueryMessageResponseHeader(index_last_update_timestamp=0, index_last_update_phyoffset=0),
            code=ResponseCode.QUERY_NOT_FOUND,
            remark="can not find message, maybe time range not correct",
        )
    newest = found[-1]
    fields = QueryMessageResponseHeader(
        index_last_update_timestamp=newest.store_timestamp_ms, index_last_update_phyoffset=newest.physical_offset
    )
    return call.respond(fields, b"".join([each.record for each in cut_to_bytes(found)]))


HANDLERS: Mapping[int, Handler] = {
    RequestCode.QUERY_MESSAGE: query_message,
    RequestCode.VIEW_MESSAGE_BY_ID: view_message,
}
