"""Messages that consumers return, resets of groups, and requests forwarded to a consumer (rules 3.5.3, 3.10.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial

from rmqpull_broker.core.clients.members import ClientChannel
from rmqpull_broker.core.errors import BrokerError, InternalError
from rmqpull_broker.core.filters.message_filter import parse_tags
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset
from rmqpull_broker.core.pulling.group_offsets import clone_offsets, find_corrections, plan_reset_of_members
from rmqpull_broker.core.sending.send_back import SendBack
from rmqpull_broker.core.sending.storing import Sent
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.peers import Peer, make_request
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.long_answers import Answer, answer, answer_later
from rmqpull_broker.server.remoting.stream_members import AskMember, print_thread_stack, verify_message
from rmqpull_broker.server.remoting.wire.consumer_headers import (
    CloneGroupOffsetRequestHeader,
    ConsumeMessageDirectlyRequestHeader,
    ConsumerRunningInfoRequestHeader,
    GetConsumerStatusRequestHeader,
    QueryCorrectionOffsetRequestHeader,
)
from rmqpull_broker.server.remoting.wire.json_parts import Parts
from rmqpull_broker.server.remoting.wire.message_ids import make_offset_msg_id, parse_offset_msg_id
from rmqpull_broker.server.remoting.wire.queue_bodies import (
    QueueOfBroker,
    decode_consumer_status,
    encode_corrections,
    encode_offset_list,
    encode_offsets,
    write_group_status,
)
from rmqpull_proto.remoting.codes import LanguageCode, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand, Serialization, WireError
from rmqpull_proto.remoting.headers import ConsumerSendMsgBackRequestHeader, ResetOffsetRequestHeader

FORWARD_TIMEOUT_MS = 10_000
"""How long a consumer may take to answer a forwarded request."""
STATUS_TIMEOUT_MS = 5_000
"""How long each consumer may take to report its offsets."""
_NOT_SET = "not set any response code"
"""The default remark of Apache's broker, which it forgets to clear on some successes."""


# --- messages that are returned ---------------------------------------------------------------------------------------


async def send_back(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """CONSUMER_SEND_MSG_BACK. Responds once the message is stored for its next delivery or as a dead letter."""
    request = _send_back_from(service, call)
    outcome = await service.group_commit.execute(partial(_send_back, service, request))
    if isinstance(outcome, BrokerError):
        raise outcome
    return call.respond()


def _send_back_from(service: RemotingService, call: RemotingCall) -> SendBack:
    header = call.read_header(ConsumerSendMsgBackRequestHeader)
    site = call.site
    found = service.state.physical_offsets.locate(site.broker_name, header.offset)
    queue, queue_offset = (MessageQueue("", site.broker_name, 0), 0) if found is None else found
    return SendBack(
        header.group,
        queue,
        queue_offset,
        header.delay_level,
        header.max_reconsume_times,
        physical_offset=header.offset,
        offset_msg_id=make_offset_msg_id(site.host, site.port, header.offset),
    )


def _send_back(service: RemotingService, request: SendBack, draft: Draft) -> Sent | BrokerError | None:
    """Returns a refusal instead of raising it, so that a missing group and retry topic are created (rules 6.1)."""
    try:
        return service.sender.send_back(draft, request, service.clock_ms())
    except BrokerError as refusal:
        return refusal


# --- offsets of groups ------------------------------------------------------------------------------------------------


async def reset_offset(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """INVOKE_BROKER_TO_RESET_OFFSET: resets the next pulls; without ``useServerSideResetOffset``, online members."""
    header = call.read_header(ResetOffsetRequestHeader)
    if not service.properties.use_server_side_reset_offset:
        return _reset_members(service, call, header)
    broker_name = call.site.broker_name
    queue = None if header.queue_id < 0 else MessageQueue(header.topic, broker_name, header.queue_id)
    wanted = ResetRequest(header.group, header.topic, queue, header.offset, header.timestamp, broker_name)
    targets = await service.group_commit.execute(partial(invoke_reset, request=wanted))
    return call.respond(body=encode_offsets(dict(targets)))


def _reset_members(service: RemotingService, call: RemotingCall, header: ResetOffsetRequestHeader) -> RemotingCommand:
    group, topic, time = header.group, header.topic, header.timestamp
    draft = Draft(service.state)
    offsets = plan_reset_of_members(draft, group, topic, call.site.broker_name, time, is_forced=header.is_force)
    peers = [peer for _, peer in _list_members(service, call, group)]
    if not peers:
        remark = f"Consumer not online, so can not reset offset, Group: {group} Topic: {topic} Timestamp: {time}"
        return call.respond(code=ResponseCode.CONSUMER_NOT_ONLINE, remark=remark)
    told = ResetOffsetRequestHeader(topic=topic, group=group, timestamp=time, is_force=False)
    body = encode_offset_list(offsets) if call.command.language == LanguageCode.CPP else encode_offsets(offsets)
    for peer in peers:
        peer.send(make_request(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, told, body, is_oneway=True))
    return call.respond(body=encode_offsets(offsets), remark=_NOT_SET)


async def get_consumer_status(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: the offsets as the members have them. Skips members that do not answer."""
    header = call.read_header(GetConsumerStatusRequestHeader)
    members = _list_members(service, call, header.group)
    if not members:
        raise InternalError(f"No Any Consumer online in the consumer group: [{header.group}]")
    asked = GetConsumerStatusRequestHeader(topic=header.topic, group=header.group)
    wanted = [each for each in members if (header.client_addr or "").strip() in ("", each[0].client_id)]
    statuses = await asyncio.gather(*(_ask_status(peer, asked) for _, peer in wanted))
    found = {
        channel.client_id: status for (channel, _), status in zip(wanted, statuses, strict=True) if status is not None
    }
    return await answer_later(service, call, write_group_status(found), _NOT_SET)


async def _ask_status(peer: Peer, header: GetConsumerStatusRequestHeader) -> Mapping[QueueOfBroker, int] | None:
    try:
        request = make_request(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, header)
        response = await peer.ask(request, STATUS_TIMEOUT_MS)
        return decode_consumer_status(response.body) if response.code == ResponseCode.SUCCESS else None
    except (TimeoutError, asyncio.TimeoutError, ConnectionError, WireError):
        return None


async def clone_group_offset(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """CLONE_GROUP_OFFSET. As with Apache's broker, nothing is cloned without a topic."""
    header = call.read_header(CloneGroupOffsetRequestHeader)
    topic = (header.topic or "").strip()
    info = service.clients.consumers.find_consumer_group(header.src_group)
    subscribes = info is None or not info.subscriptions or info.subscription(topic) is not None
    if topic and (header.offline or subscribes):
        source, target, broker_name = header.src_group, header.dest_group, call.site.broker_name
        await service.execute(lambda draft: clone_offsets(draft, source, target, topic, broker_name))
    return call.respond()


def query_correction_offset(service: RemotingService, call: RemotingCall) -> Answer:
    """QUERY_CORRECTION_OFFSET. The groups to filter are left out. Apache's broker also deletes their offsets."""
    header = call.read_header(QueryCorrectionOffsetRequestHeader)
    ignored = frozenset(filter(None, (header.filter_groups or "").split(",")))
    corrections = find_corrections(service.state, header.topic, call.site.broker_name, header.compare_group, ignored)

    def write() -> Parts:
        yield encode_corrections((yield from corrections))

    return answer(service, call, write())


# --- requests to one consumer -----------------------------------------------------------------------------------------


async def get_running_info(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_CONSUMER_RUNNING_INFO: the consumer describes itself. A gRPC client reports only its threads' stacks."""
    header = call.read_header(ConsumerRunningInfoRequestHeader)

    async def ask_stream(client_id: str, timeout_ms: int) -> RemotingCommand:
        if not header.jstack_enable:
            raise TimeoutError  # Apache's proxy asks nothing then, and waits
        return await print_thread_stack(service.clients, client_id, timeout_ms)

    return await _forward(service, call, header.consumer_group, header.client_id, ask_stream)


async def consume_directly(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """CONSUME_MESSAGE_DIRECTLY: a consumer gets a message of this broker, whatever the group's offset is."""
    header = call.read_header(ConsumeMessageDirectlyRequestHeader)
    queue, queue_offset, body = _read_record(service, call, header.msg_id or "")
    group = service.state.groups.get(header.consumer_group)
    flag = 0 if group is None else group.group_sys_flag
    fields = {"brokerName": call.site.broker_name, "topicSysFlag": "0", "groupSysFlag": str(flag)}
    ask_stream = verify_message(service, queue, queue_offset)
    return await _forward(service, call, header.consumer_group, header.client_id or "", ask_stream, fields, body)


def _read_record(service: RemotingService, call: RemotingCall, msg_id: str) -> tuple[MessageQueue, int, bytes]:
    physical_offset = parse_offset_msg_id(msg_id).physical_offset
    found = service.state.physical_offsets.locate(call.site.broker_name, physical_offset)
    if found is not None:
        record = b"".join(service.record_pulls.pull(*found, 1, parse_tags("*")).body)
        if record:
            return *found, record
    raise InternalError(f"look message by offset failed, {physical_offset}")


async def _forward(
    service: RemotingService,
    call: RemotingCall,
    group: str,
    client_id: str,
    ask_stream: AskMember,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> RemotingCommand:
    """Forwards the request to a member, and returns its response (``callConsumer``).

    ``ask_stream`` does so for a member that has a Telemetry stream instead of a connection.
    """
    clients = service.clients
    channel = clients.consumers.find_member(group, client_id, call.site.broker_name)
    if channel is None:
        raise InternalError(f"The Consumer <{group}> <{client_id}> not online")
    peer = clients.peers.find(channel)
    code, given = call.command.code, {**call.command.fields, **(fields or {})}
    request = RemotingCommand(code, given, body, serialization=Serialization.JSON)
    try:
        if peer is None:
            response = await ask_stream(channel.client_id, FORWARD_TIMEOUT_MS)
        else:
            response = await peer.ask(request, FORWARD_TIMEOUT_MS)
    except (TimeoutError, asyncio.TimeoutError):
        remark = f"consumer <{group}> <{client_id}> Timeout: it has not answered within {FORWARD_TIMEOUT_MS} ms"
        return call.respond(code=ResponseCode.CONSUME_MSG_TIMEOUT, remark=remark)
    except ConnectionError as error:
        raise InternalError(f"invoke consumer <{group}> <{client_id}> Exception: {error}") from None
    return call.respond(response.fields, response.body, code=response.code, remark=response.remark)


def _list_members(service: RemotingService, call: RemotingCall, group: str) -> list[tuple[ClientChannel, Peer]]:
    """The members on this broker that speak this protocol."""
    clients, broker_name = service.clients, call.site.broker_name
    here = (channel for channel in clients.consumers.members(group) if channel.is_connected_to(broker_name))
    found = ((channel, clients.peers.find(channel)) for channel in here)
    return [(channel, peer) for channel, peer in found if peer is not None]


HANDLERS: Mapping[int, Handler] = {
    RequestCode.CONSUMER_SEND_MSG_BACK: send_back,
    RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: reset_offset,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: get_consumer_status,
    RequestCode.GET_CONSUMER_RUNNING_INFO: get_running_info,
    RequestCode.CONSUME_MESSAGE_DIRECTLY: consume_directly,
    RequestCode.CLONE_GROUP_OFFSET: clone_group_offset,
    RequestCode.QUERY_CORRECTION_OFFSET: query_correction_offset,
}
