"""Commands on consumer groups (rules 3.9.4)."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest, ConsumerGroupNotFound
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import GroupDeleted, GroupPut, OffsetsCommitted
from rmqpull_broker.core.state.names import check_group_name, is_creatable_group, is_system_group

RETRY_QUEUES_MAX = 1024


def ensure_group(draft: Draft, name: str) -> GroupConfig:
    """Returns the group of that name, or creates it with its defaults if the broker allows it.

    Raises IllegalConsumerGroup for a bad name, ConsumerGroupNotFound when ``autoCreateSubscriptionGroup`` is off.
    """
    check_group_name(name)
    group = find_or_create_group(draft, name)
    if group is None:
        raise ConsumerGroupNotFound(f"subscription group [{name}] does not exist")
    return group


def find_or_create_group(draft: Draft, name: str) -> GroupConfig | None:
    """Returns the group of that name, or creates it (findSubscriptionGroupConfig).

    Returns None when ``autoCreateSubscriptionGroup`` is off, or when no group can have this name.
    """
    group = draft.find_group(name)
    if group is not None or not is_creatable_group(name):
        return group
    if not (draft.properties.auto_create_subscription_group or is_system_group(name)):
        return None
    group = GroupConfig(name)
    draft.add(GroupPut(group))
    return group


def put_group(draft: Draft, group: GroupConfig) -> None:
    """Creates or changes a group of any name, like UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (rules 6.1).

    Raises BadRequest for numbers out of range.
    """
    if not 0 <= group.retry_queue_nums <= RETRY_QUEUES_MAX:
        raise BadRequest(f"group {group.name} needs 0 to {RETRY_QUEUES_MAX} retry queues, got {group.retry_queue_nums}")
    if group.retry_max_times < -1:
        raise BadRequest(f"group {group.name} has retryMaxTimes {group.retry_max_times}: expected -1 or more")
    if draft.find_group(group.name) != group:
        draft.add(GroupPut(group))


def delete_group(draft: Draft, name: str) -> None:
    """Deletes a group with its offsets. Raises ConsumerGroupNotFound."""
    draft.require_group(name)
    draft.add(GroupDeleted(name))


def drop_group(draft: Draft, name: str, *, keeps_offsets: bool) -> None:
    """Deletes a group like DELETE_SUBSCRIPTIONGROUP, which may keep its offsets. Ignores a missing group."""
    if draft.find_group(name) is None:
        return
    draft.add(GroupDeleted(name))
    offsets = tuple((queue, at) for (group, queue), at in draft.state.consumer_offsets.items() if group == name)
    if keeps_offsets and offsets:
        draft.add(OffsetsCommitted(name, offsets))
