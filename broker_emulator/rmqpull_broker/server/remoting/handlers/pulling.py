"""Pulls: PULL_MESSAGE and LITE_PULL_MESSAGE (rules 3.1 to 3.4, 4.5)."""

from __future__ import annotations

from collections.abc import Coroutine, Hashable, Mapping
from functools import partial
from typing import Any, TypeVar

from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.checks import check_pull
from rmqpull_broker.core.pulling.record_pull import RecordsPulled, make_empty
from rmqpull_broker.core.pulling.request import PullContext, PullRequest, PullSysFlag, PullVerdict, RequestSource
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService, Reply
from rmqpull_broker.server.remoting.wire.pull_responses import PullResponse, encode_pull_response
from rmqpull_broker.server.runtime.service import Caller
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import WireError
from rmqpull_proto.remoting.header_fields import parse_long
from rmqpull_proto.remoting.headers import PullMessageRequestHeader

T = TypeVar("T")
_COMMIT_OFFSET, _SUSPEND = int(PullSysFlag.COMMIT_OFFSET), int(PullSysFlag.SUSPEND)
_SUBSCRIPTION, _LITE_PULL_MESSAGE = int(PullSysFlag.SUBSCRIPTION), int(PullSysFlag.LITE_PULL_MESSAGE)
_KEY_FIELDS = (
    "consumerGroup",
    "topic",
    "queueId",
    "maxMsgNums",
    "sysFlag",
    "suspendTimeoutMillis",
    "subscription",
    "expressionType",
    "subVersion",
    "requestSource",
)
"""The fields of a pull on which its verdict depends."""
_SOURCES: Mapping[int | None, RequestSource] = {int(source): source for source in RequestSource}


def pull_message(service: RemotingService, call: RemotingCall) -> Reply | Coroutine[Any, Any, Reply]:
    """Both requests. A pull that finds no message parks once if it may, and then runs once more (rules 3.3.1)."""
    return _repeat(service, call) or _pull(service, call)


def _pull(service: RemotingService, call: RemotingCall) -> Reply | Coroutine[Any, Any, Reply]:
    pull = _read_pull(call)
    verdict, changes_nothing = service.try_command(partial(_check, service, call, pull))
    if not changes_nothing:
        return _pull_after_setting(service, call, pull)
    found = _set_and_read(service, pull, verdict)
    service.standing_verdicts.keep(_make_key(call), pull, verdict, service.steady_ms())
    if found.may_park and pull.may_park:
        return _park(service, call, pull, found, verdict.message_filter)
    return _respond(service, call, pull, found)


def _repeat(service: RemotingService, call: RemotingCall) -> bytes | None:
    """Responds to a pull like :func:`_pull` if a cached verdict is still valid and the pull need not park.

    Most pulls end here, so this path skips the checks.
    """
    standing = service.standing_verdicts.find(_make_key(call), service.steady_ms())
    if standing is None:
        return None
    pull, fields = standing.request, call.command.fields
    try:
        offset = parse_long(fields["queueOffset"])
        commit_offset = parse_long(fields["commitOffset"]) if pull.sets_offset else 0
    except (KeyError, ValueError):
        return None  # an invalid field, which ``_pull`` reports
    found = service.record_pulls.pull(pull.queue, offset, pull.max_msg_nums, standing.message_filter)
    if found.may_park and pull.may_park:
        return None
    _count(service, pull, found)
    if pull.sets_offset:
        service.unstored_offsets.put(pull.group, pull.queue, commit_offset)
    return _respond(service, call, pull, found)


def _make_key(call: RemotingCall) -> tuple[Hashable, ...]:
    """Returns the fields that two pulls must share if one verdict applies to both."""
    return (call.command.code, call.peer.channel_id, *map(call.command.fields.get, _KEY_FIELDS))


async def _pull_after_setting(service: RemotingService, call: RemotingCall, pull: PullRequest) -> bytes:
    """Pulls when what the checks change is stored: a new group, an answered reset."""
    verdict = await service.group_commit.execute(partial(_check, service, call, pull))
    found = _set_and_read(service, pull, verdict)
    if found.may_park and pull.may_park:
        return await _park(service, call, pull, found, verdict.message_filter)
    return _respond(service, call, pull, found)


async def _park(
    service: RemotingService,
    call: RemotingCall,
    pull: PullRequest,
    found: RecordsPulled,
    message_filter: MessageFilter,
) -> bytes:
    """Waits for a message, and pulls again. A pull whose connection is closed is dropped."""
    caller = Caller(call.peer.remote_address, call.peer.channel_id, None)
    with call.peer.ending_with_connection():
        runs_again = await service.park(
            [pull.queue], message_filter, pull.suspend_timeout_ms, caller, group=pull.group, on_grid=True
        )
    if runs_again:
        verdict = await service.execute(partial(_check, service, call, pull))
        found = _read(service, pull, verdict)
    return _respond(service, call, pull, found)


def _read_pull(call: RemotingCall) -> PullRequest:
    """Reads the request as Apache's broker does: only its code shows whether it is a lite pull. Raises WireError."""
    header = call.read_header(PullMessageRequestHeader)
    is_lite = call.command.code == RequestCode.LITE_PULL_MESSAGE
    sys_flag = header.sys_flag | _LITE_PULL_MESSAGE if is_lite else header.sys_flag & ~_LITE_PULL_MESSAGE
    return PullRequest(
        header.consumer_group,
        MessageQueue(header.topic, call.site.broker_name, header.queue_id),
        header.queue_offset,
        header.max_msg_nums,
        sys_flag,
        _require("commitOffset", header.commit_offset, 0, sys_flag & _COMMIT_OFFSET),
        _require("suspendTimeoutMillis", header.suspend_timeout_millis, 0, sys_flag & _SUSPEND),
        header.subscription,
        header.expression_type,
        _require("subVersion", header.sub_version, 0, ~sys_flag & _SUBSCRIPTION),
        _SOURCES.get(header.request_source, RequestSource.SDK),
        remote_address=f"/{call.peer.remote_address}",  # as Java writes an address
        channel_id=call.peer.channel_id,
    )


def _require(name: str, value: T | None, default: T, is_required: int) -> T:
    """Returns a field, or the default if it is optional. Raises WireError."""
    if value is None and is_required:
        raise WireError(f"field {name} is missing in PullMessageRequestHeader, expected a number of 64 bits")
    return default if value is None else value


def _check(service: RemotingService, call: RemotingCall, pull: PullRequest, draft: Draft) -> PullVerdict:
    return check_pull(draft, service.clients.consumers, pull, service.clock_ms(), PullContext(call.site.ip))


def _set_and_read(service: RemotingService, pull: PullRequest, verdict: PullVerdict) -> RecordsPulled:
    """Runs a pull the first time. Its consumer offset counts at once and is stored later: Java sends one in each."""
    found = _read(service, pull, verdict)
    if pull.sets_offset:
        service.unstored_offsets.put(pull.group, pull.queue, pull.commit_offset)
    return found


def _read(service: RemotingService, pull: PullRequest, verdict: PullVerdict) -> RecordsPulled:
    """Reads the queue as the checks decided. Raises their refusal."""
    if verdict.compensation is not None:
        verdict.compensation.apply(service.clients.consumers)
    if verdict.refusal is not None:
        raise verdict.refusal
    if verdict.reset_offset is not None:
        bounds = service.state.bounds(pull.queue)
        return make_empty(PullStatus.OFFSET_RESET, pull.offset, verdict.reset_offset, bounds)
    found = service.record_pulls.pull(pull.queue, pull.offset, pull.max_msg_nums, verdict.message_filter)
    _count(service, pull, found)
    return found


def _count(service: RemotingService, pull: PullRequest, found: RecordsPulled) -> None:
    topic, broker_name, _ = pull.queue
    service.metrics.count_records(topic, found)
    if found.row_count:
        service.stats.count_pulled(broker_name, topic, pull.group, found.row_count, service.steady_ms())


def _respond(service: RemotingService, call: RemotingCall, pull: PullRequest, found: RecordsPulled) -> bytes:
    """Makes the response. Every broker here is a master without slaves, so none suggests another one (rules 3.2.3,
    3.3.2)."""
    status, code, next_offset, bounds, body, *_ = found
    group = service.state.groups.get(pull.group)
    flag = 0 if group is None else group.group_sys_flag
    return encode_pull_response(call.command, PullResponse(code, status.name, next_offset, *bounds, body, flag))


HANDLERS: Mapping[int, Handler] = {
    RequestCode.PULL_MESSAGE: pull_message,
    RequestCode.LITE_PULL_MESSAGE: pull_message,
}
