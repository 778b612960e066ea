"""Consumer groups: their settings (rules 3.9.4, 4.6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rmqpull_broker.core.admin import groups
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import CustomizedBackoff, ExponentialBackoff, GroupConfig
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService
from rmqpull_broker.server.remoting.handlers.admin_codec import find_refusal
from rmqpull_broker.server.remoting.handlers.page_codec import cut_page
from rmqpull_broker.server.remoting.long_answers import Answer, answer
from rmqpull_broker.server.remoting.wire.admin_bodies import GroupSettings, read_settings, write_settings_table
from rmqpull_broker.server.remoting.wire.page_headers import (
    GetAllSubscriptionGroupRequestHeader,
    GetAllSubscriptionGroupResponseHeader,
)
from rmqpull_proto.names import GROUPS_FROM_START
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.headers import DeleteSubscriptionGroupRequestHeader, GetSubscriptionGroupConfigRequestHeader
from rmqpull_proto.remoting.json_dialect import write_json


async def put_group(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
    await _put_all(service, call, read_settings(call.command.body, GroupSettings))
    return call.respond()


async def put_groups(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: all of them, or none."""
    await _put_all(service, call, read_settings(call.command.body, GroupSettings, "groupConfigList"))
    return call.respond()


async def _put_all(service: RemotingService, call: RemotingCall, listed: Sequence[GroupSettings]) -> None:
    def put(draft: Draft) -> None:
        for settings in listed:
            refusal = find_refusal(service, call, f"group {settings.group_name}")
            groups.put_group(draft, _make_group(settings), refusal)

    await service.group_commit.execute(put)


def _make_group(settings: GroupSettings) -> GroupConfig:
    return GroupConfig(
        settings.group_name,
        settings.consume_enable,
        settings.consume_broadcast_enable,
        settings.consume_message_orderly,
        settings.retry_queue_nums,
        settings.retry_max_times,
        settings.notify_consumer_ids_changed_enable,
        read_retry_policy(settings.group_retry_policy),
        settings.group_sys_flag,
    )


def read_retry_policy(policy: Mapping[str, Any]) -> ExponentialBackoff | CustomizedBackoff | None:
    """Reads Apache's GroupRetryPolicy; None for its default. Raises BadRequest."""
    kind = str(policy.get("type", "CUSTOMIZED"))
    own = policy.get(f"{kind.lower()}RetryPolicy")
    try:
        if kind == "EXPONENTIAL":
            given = {**_EXPONENTIAL, **(own or {})}
            return ExponentialBackoff(int(given["initial"]), int(given["max"]), float(given["multiplier"]))
        return None if own is None else CustomizedBackoff(tuple(map(int, own["next"])))
    except (TypeError, ValueError, KeyError, OverflowError):
        raise BadRequest(f"groupRetryPolicy cannot be read: {str(policy)[:200]}") from None


_EXPONENTIAL = {"initial": 5_000, "max": 7_200_000, "multiplier": 2}
"""The defaults of Apache's ExponentialRetryPolicy."""


def write_retry_policy(policy: ExponentialBackoff | CustomizedBackoff | None) -> dict[str, Any]:
    """Writes a policy as Apache's GroupRetryPolicy."""
    if policy is None:
        return {"type": "CUSTOMIZED"}
    if isinstance(policy, CustomizedBackoff):
        return {"customizedRetryPolicy": {"next": list(policy.next_ms)}, "type": "CUSTOMIZED"}
    multiplier = int(policy.multiplier) if policy.multiplier == int(policy.multiplier) else policy.multiplier
    own = {"initial": policy.initial_ms, "max": policy.max_ms, "multiplier": multiplier}
    return {"exponentialRetryPolicy": own, "type": "EXPONENTIAL"}


def describe_group(group: GroupConfig) -> GroupSettings:
    """Returns the settings of a group. Those that this broker does not have get Apache's defaults."""
    return GroupSettings(
        group_name=group.name,
        consume_enable=group.consume_enable,
        consume_broadcast_enable=group.consume_broadcast_enable,
        consume_message_orderly=group.consume_message_orderly,
        retry_queue_nums=group.retry_queue_nums,
        retry_max_times=group.retry_max_times,
        notify_consumer_ids_changed_enable=group.notify_consumer_ids_changed_enable,
        group_sys_flag=group.group_sys_flag,
        group_retry_policy=write_retry_policy(group.retry_policy),
    )


async def delete_group(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """DELETE_SUBSCRIPTIONGROUP. A missing group counts as deleted already, because the request goes to each broker.

    Unless it also deletes the offsets, Apache's broker 5.5.0 then checks whether the group consumes lite topics, which
    creates the group again (``LiteMetadataUtil.isLiteGroupType``, rules 6.1).
    """
    header = call.read_header(DeleteSubscriptionGroupRequestHeader)
    name, clean = header.group_name, header.clean_offset or bool(header.remove_offset)
    execute = service.group_commit.execute
    await execute(lambda draft: groups.drop_group(draft, name, keeps_offsets=not clean))
    if not header.clean_offset:
        await execute(lambda draft: groups.find_or_create_group(draft, name))
    return call.respond()


def list_group_settings(service: RemotingService, call: RemotingCall) -> Answer:
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG: the settings of all groups, also the system's, or of a page of them."""
    header = call.read_header(GetAllSubscriptionGroupRequestHeader)
    listed = {**{name: GroupConfig(name) for name in GROUPS_FROM_START}, **service.state.groups}
    others: dict[str, Any] = {"forbiddenTable": {}}
    total = GetAllSubscriptionGroupResponseHeader(total_group_num=len(listed))
    page = cut_page(listed, header.group_seq, header.data_version, header.max_group_num)
    if page is not None:
        listed, others["dataVersion"] = {name: listed[name] for name in page.names}, page.version
    settings = ((group.name, describe_group(group)) for group in listed.values())
    return answer(service, call, write_settings_table("subscriptionGroupTable", settings, **others), total)


async def get_group_settings(service: RemotingService, call: RemotingCall) -> RemotingCommand:
    """GET_SUBSCRIPTIONGROUP_CONFIG, which creates a missing group if that is allowed."""
    name = call.read_header(GetSubscriptionGroupConfigRequestHeader).group
    group = await service.execute(lambda draft: groups.find_or_create_group(draft, name))
    if group is None:
        return call.respond(code=ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark="No group in this broker")
    return call.respond(body=write_json(describe_group(group).to_json()))


HANDLERS: Mapping[int, Handler] = {
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: put_group,
    RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: put_groups,
    RequestCode.DELETE_SUBSCRIPTIONGROUP: delete_group,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: list_group_settings,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: get_group_settings,
}
