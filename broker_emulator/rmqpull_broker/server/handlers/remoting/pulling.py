"""Pulls: PULL_MESSAGE and LITE_PULL_MESSAGE (rules 3.1 to 3.4, 4.5)."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.checks import begin_pull
from rmqpull_broker.core.pulling.message_pull import Pulled
from rmqpull_broker.core.pulling.record_pull import RecordsPulled
from rmqpull_broker.core.pulling.request import PullContext, PullRequest, PullSysFlag
from rmqpull_broker.server.runtime.remoting_calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.runtime.service import Caller
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import PullMessageRequestHeader, PullMessageResponseHeader

MASTER_ID = 0


async def pull_message(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """A pull that finds no message parks once if it may, and then runs once more."""
    pull = _read_pull(call)
    found, message_filter = await _run(service, call, pull, is_first_run=True)
    if found.pulled.may_park and pull.may_park:
        caller = Caller(call.peer.remote_address, call.peer.channel_id, None)
        if await service.service.park(
            [pull.queue], message_filter, pull.suspend_timeout_ms, caller, group=pull.group, on_grid=True
        ):
            found, _ = await _run(service, call, pull, is_first_run=False)
    return _respond(call, found)


def _read_pull(call: RemotingCall) -> PullRequest:
    header = call.read_header(PullMessageRequestHeader)
    return PullRequest(
        header.consumer_group,
        MessageQueue(header.topic, call.site.broker_name, header.queue_id),
        header.queue_offset,
        header.max_msg_nums,
        PullSysFlag(header.sys_flag & 31),
        header.commit_offset,
        header.suspend_timeout_millis,
        header.subscription,
        header.expression_type,
        header.sub_version,
        remote_address=call.peer.remote_address,
        channel_id=call.peer.channel_id,
    )


async def _run(
    service: RemotingService, call: RemotingCall, pull: PullRequest, *, is_first_run: bool
) -> tuple[RecordsPulled, MessageFilter]:
    broker = service.service
    consumers, now_ms, context = broker.clients.consumers, broker.clock_ms(), PullContext(call.site.host)
    verdict = await broker.execute(
        lambda draft: begin_pull(draft, consumers, pull, now_ms, context, is_first_run=is_first_run)
    )
    if verdict.compensation is not None:
        verdict.compensation.apply(consumers)
    if verdict.refusal is not None:
        raise verdict.refusal
    if verdict.reset_offset is not None:
        bounds = broker.state.bounds(pull.queue)
        pulled = Pulled(PullStatus.OFFSET_RESET, pull.offset, verdict.reset_offset, bounds)
        return RecordsPulled(pulled, (), 0), verdict.message_filter
    found = service.record_pulls.pull(pull.queue, pull.offset, pull.max_msg_nums, verdict.message_filter)
    return found, verdict.message_filter


def _respond(call: RemotingCall, found: RecordsPulled) -> RemotingCommand:
    pulled = found.pulled
    header = PullMessageResponseHeader(
        suggest_which_broker_id=MASTER_ID,
        next_begin_offset=pulled.next_offset,
        min_offset=pulled.bounds.min_offset,
        max_offset=pulled.bounds.max_offset,
        topic_sys_flag=0,
        group_sys_flag=0,
    )
    body = b"".join(found.body)
    return call.respond(header, body, code=pulled.response, remark=pulled.status.name)


HANDLERS: Mapping[int, Handler] = {
    RequestCode.PULL_MESSAGE: pull_message,
    RequestCode.LITE_PULL_MESSAGE: pull_message,
}
