"""PutGroup, ListGroups, DescribeGroup, DeleteGroup, QueryLag and ListInFlight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from rmqpull_broker.core.admin import groups
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.popping.in_flight_listing import LISTED_MAX, InFlightQuery
from rmqpull_broker.core.popping.in_flight_listing import list_in_flight as list_messages
from rmqpull_broker.core.pulling.consumer_offsets import read_group_progress
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.steps import sort_in_steps
from rmqpull_broker.server.grpc.handlers.admin.codec import clients_to, group_to, in_flight_to, progress_to
from rmqpull_broker.server.grpc.long_response import respond
from rmqpull_broker.server.grpc.wire.codec import retry_policy_from
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc

_FIELDS = (
    "consume_enable",
    "consume_broadcast_enable",
    "consume_message_orderly",
    "retry_queue_nums",
    "retry_max_times",
    "notify_consumer_ids_changed_enable",
)


async def put_group(service: Service, request: rpc.PutGroupRequest, caller: Caller) -> rpc.PutGroupResponse:
    """PutGroup: creates or changes a consumer group, as UPDATE_AND_CREATE_SUBSCRIPTIONGROUP does (rules 3.9.4).

    A field that the request leaves out keeps its value; a new group gets RocketMQ's default.
    """
    given = {name: getattr(request, name) for name in _FIELDS if request.HasField(name)}
    if request.HasField("retry_policy"):
        given["retry_policy"] = retry_policy_from(request.retry_policy)
    refusal = service.access.find_refusal("PutGroup", caller.address, f"group {request.name}")

    def put(draft: Draft) -> tuple[GroupConfig, bool]:
        existing = draft.require_group(request.name) if request.mode == rpc.UPDATE else draft.find_group(request.name)
        kept = None if request.mode == rpc.CREATE else existing
        group = replace(kept or GroupConfig(request.name), **given)
        if request.mode == rpc.CREATE and existing not in (None, group):
            raise BadRequest(f"group {request.name} exists with another configuration; update it, or request the same")
        groups.put_group(draft, group, refusal)
        return group, existing is None

    group, created = await service.group_commit.execute(put)
    return rpc.PutGroupResponse(status=OK, group=group_to(group), created=created)


async def list_groups(service: Service, request: rpc.ListGroupsRequest, caller: Caller) -> rpc.ListGroupsResponse:
    """ListGroups: returns all groups by name, including those created on first use, with their clients and lag."""
    return await respond(service.slices, rpc.ListGroupsResponse(status=OK), _list_groups(service))


def _list_groups(service: Service) -> Iterator[rpc.ListGroupsResponse | None]:
    lags, in_flight = Counter[str](), Counter[str]()
    for progress in read_group_progress(service.state, (), ()):
        if progress is not None:
            lags[progress.group] += progress.lag
            in_flight[progress.group] += progress.in_flight
        yield None
    for name in (yield from sort_in_steps(service.state.groups)):
        group = service.state.find_group(name)
        if group is not None:  # it may have been deleted since
            summary = rpc.GroupSummary(
                group=group_to(group),
                client_count=len({channel.client_id for channel in service.clients.consumers.members(name)}),
                lag=lags[name],
                in_flight=in_flight[name],
            )
            yield rpc.ListGroupsResponse(groups=[summary])


async def describe_group(
    service: Service, request: rpc.DescribeGroupRequest, caller: Caller
) -> rpc.DescribeGroupResponse:
    """DescribeGroup: returns a group's configuration, its clients, and its progress.

    The progress has all queues of each topic on which the group has an offset.
    """
    group = service.state.require_group(request.name)
    info = service.clients.consumers.find_consumer_group(group.name)
    head = rpc.DescribeGroupResponse(
        status=OK,
        group=group_to(group),
        message_model="" if info is None else info.message_model.value,
        clients=clients_to(service.clients, group.name),
    )
    progress = read_group_progress(service.state, (group.name,), ())
    parts = (each and rpc.DescribeGroupResponse(progress=[progress_to(each)]) for each in progress)
    return await respond(service.slices, head, parts)


async def delete_group(service: Service, request: rpc.DeleteGroupRequest, caller: Caller) -> rpc.DeleteGroupResponse:
    """DeleteGroup: deletes a consumer group and all of its consumer offsets. Responds once that is stored."""
    await service.group_commit.execute(lambda draft: groups.delete_group(draft, request.name))
    return rpc.DeleteGroupResponse(status=OK)


async def query_lag(service: Service, request: rpc.QueryLagRequest, caller: Caller) -> rpc.QueryLagResponse:
    """QueryLag: returns how far groups are behind, queue by queue.

    Refuses the name of a group or topic that does not exist: an empty response would look like no lag.
    """
    for name in request.groups:
        service.state.require_group(name)
    for name in request.topics:
        service.state.require_topic(name)
    progress = read_group_progress(service.state, set(request.groups), set(request.topics))
    parts = (each and rpc.QueryLagResponse(progress=[progress_to(each)]) for each in progress)
    return await respond(service.slices, rpc.QueryLagResponse(status=OK), parts)


async def list_in_flight(
    service: Service, request: rpc.ListInFlightRequest, caller: Caller
) -> rpc.ListInFlightResponse:
    """ListInFlight: returns messages that groups have received and not acknowledged yet, and counts all of them.

    Refuses the name of a group or topic that does not exist, as QueryLag does.
    """
    if request.max_messages < 0:
        raise BadRequest(f"cannot list {request.max_messages} messages: give a number, or 0 for the max of one call")
    for name in request.groups:
        service.state.require_group(name)
    for name in request.topics:
        service.state.require_topic(name)
    query = InFlightQuery(
        frozenset(request.groups),
        frozenset(request.topics),
        request.broker_name if request.HasField("broker_name") else None,
        request.queue_id if request.HasField("queue_id") else None,
    )
    listing = list_messages(service.state, query, request.max_messages or LISTED_MAX)
    return rpc.ListInFlightResponse(status=OK, messages=map(in_flight_to, listing.messages), total=listing.total)
