"""Commands on consumer groups (rules 3.9.4)."""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest, BrokerError, ConsumerGroupNotFound
from rmqpull_broker.core.model import CustomizedBackoff, GroupConfig
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import GroupDeleted, GroupPut, OffsetsCommitted
from rmqpull_broker.core.state.names import (
    check_group_name,
    check_group_spelling,
    is_creatable_group,
    is_system_group,
)
from rmqpull_proto.names import GROUPS_FROM_START

RETRY_QUEUES_MAX = 1024
RETRY_DELAYS_MAX = 100
RETRY_DELAY_MS_MAX = 30 * 86_400_000
"""The delays of a group's retry policy: how many, and the longest."""
MULTIPLIER_MAX = 1_000


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
    may_create = draft.properties.auto_create_subscription_group or is_system_group(name) or name in GROUPS_FROM_START
    if not may_create:
        return None
    group = GroupConfig(name)
    draft.add(GroupPut(group))
    return group


def put_group(draft: Draft, group: GroupConfig, refusal: BrokerError | None = None) -> None:
    """Creates or changes a group, like UPDATE_AND_CREATE_SUBSCRIPTIONGROUP.

    Raises IllegalConsumerGroup, BadRequest for numbers out of range, and ``refusal`` instead of a change.
    """
    check_group_spelling(group.name)
    if not 0 <= group.retry_queue_nums <= RETRY_QUEUES_MAX:
        raise BadRequest(f"group {group.name} needs 0 to {RETRY_QUEUES_MAX} retry queues, got {group.retry_queue_nums}")
    if group.retry_max_times < -1:
        raise BadRequest(f"group {group.name} has retryMaxTimes {group.retry_max_times}: expected -1 or more")
    _check_retry_policy(group)
    existing = draft.find_group(group.name)
    if existing == group:
        return
    if existing is not None and refusal is not None:
        raise refusal
    draft.add(GroupPut(group))


def _check_retry_policy(group: GroupConfig) -> None:
    policy = group.retry_policy
    if isinstance(policy, CustomizedBackoff):
        if not 1 <= len(policy.next_ms) <= RETRY_DELAYS_MAX:
            raise BadRequest(
                f"the retry policy of group {group.name} has {len(policy.next_ms)} delays: expected 1 to "
                f"{RETRY_DELAYS_MAX}"
            )
        times = policy.next_ms
    elif policy is not None:
        times = (policy.initial_ms, policy.max_ms)
        if not 0 < policy.multiplier <= MULTIPLIER_MAX:
            raise BadRequest(
                f"the retry policy of group {group.name} has the multiplier {policy.multiplier:g}: expected a number "
                f"above 0 and up to {MULTIPLIER_MAX}"
            )
    else:
        return
    if not all(0 <= time_ms <= RETRY_DELAY_MS_MAX for time_ms in times):
        raise BadRequest(
            f"the retry policy of group {group.name} has a delay of {max(times, key=abs)} ms: expected 0 to "
            f"{RETRY_DELAY_MS_MAX}"
        )


def delete_group(draft: Draft, name: str) -> None:
    """Deletes a group with its offsets. Raises ConsumerGroupNotFound."""
    draft.require_group(name)
    draft.add(GroupDeleted(name))


def drop_group(draft: Draft, name: str, *, keeps_offsets: bool) -> None:
    """Deletes a group like DELETE_SUBSCRIPTIONGROUP, which may keep its offsets. Ignores a missing group."""
    if draft.find_group(name) is None:
        return
    draft.add(GroupDeleted(name))
    if keeps_offsets and (offsets := draft.list_consumer_offsets(name)):
        draft.add(OffsetsCommitted(name, tuple(offsets)))
