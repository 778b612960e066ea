"""The checks of a pull's subscription and filter (rules 3.1, rows 9a to 17).

A pull either has its own subscription, or uses that of its group's heartbeats, which is in the consumer registry.
"""

from __future__ import annotations

from rmqpull_broker.core.clients.members import ConsumeType, MessageModel
from rmqpull_broker.core.clients.subscriptions import SubscriptionData, is_tag_type
from rmqpull_broker.core.errors import (
    FAQ,
    FilterDataNotExist,
    FilterDataNotLatest,
    Forbidden,
    ForbiddenType,
    SubscriptionNotExist,
    SubscriptionNotLatest,
)
from rmqpull_broker.core.filters.message_filter import (
    TAG,
    TagFilter,
    bind_constants,
    check_filter_supported,
    make_pull_filter,
)
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.pulling.request import PullCheck
from rmqpull_broker.core.state.names import is_system_group


def build_subscription(check: PullCheck) -> None:
    """Row 9a: makes the subscription and the filter of the pull itself."""
    request = check.request
    if not request.brings_subscription:
        return
    built = make_pull_filter(
        request.expression_type,
        request.subscription,
        check.draft.properties.enable_property_filter,
        is_strict=request.is_strict,
    )
    check.message_filter = bind_constants(built, make_common_properties(check.draft.properties))
    tags = check.message_filter.tags if isinstance(check.message_filter, TagFilter) else None
    check.subscription = SubscriptionData(
        request.queue.topic,
        request.subscription or "",
        check.now_ms,
        request.expression_type or TAG,
        tags or frozenset(),
    )
    if check.compensation is not None:
        check.compensation = check.compensation._replace(subscription=check.subscription)


def check_members(check: PullCheck) -> None:
    """Row 9b: the group has members that sent heartbeats."""
    if not check.uses_registry:
        return
    consumers = check.registry.find_consumer_group(check.request.group)
    if consumers is None:
        raise SubscriptionNotExist(f"the consumer's group info not exist{FAQ}")
    check.consumers = consumers


def check_broadcasting(check: PullCheck) -> None:
    """Row 10: a broadcasting group may broadcast."""
    is_broadcasting = check.uses_registry and check.consumers.message_model is MessageModel.BROADCASTING
    if is_broadcasting and not check.group.consume_broadcast_enable:
        raise Forbidden(
            f"the consumer group[{check.group.name}] can not consume by broadcast way",
            ForbiddenType.BROADCASTING_DISABLE,
        )


def check_subscription(check: PullCheck) -> None:
    """Row 12: the group subscribes to the topic."""
    if not check.uses_registry:
        return
    subscription = check.consumers.subscription(check.topic.name)
    if subscription is None:
        raise SubscriptionNotExist(f"the consumer's subscription not exist{FAQ}")
    check.subscription = subscription


def check_subscription_version(check: PullCheck) -> None:
    """Row 13: the subscription is not older than that of the pull."""
    if check.uses_registry and check.subscription.sub_version < check.request.sub_version:
        raise SubscriptionNotLatest("the consumer's subscription not latest")


def check_filter(check: PullCheck) -> None:
    """Row 14: the subscription has a filter. The pull uses it."""
    if not check.uses_registry:
        return
    if is_tag_type(check.subscription.expression_type):
        check.message_filter = make_pull_filter(TAG, check.subscription.expression, enable_property_filter=False)
        return
    data = check.consumers.find_filter(check.topic.name)
    if data is None:
        raise FilterDataNotExist("The broker's consumer filter data is not exist!Your expression may be wrong!")
    check.message_filter = bind_constants(data.compiled, make_common_properties(check.draft.properties))


def check_filter_version(check: PullCheck) -> None:
    """Row 15: the filter is not older than that of the pull."""
    if not check.uses_registry or is_tag_type(check.subscription.expression_type):
        return
    data = check.consumers.find_filter(check.topic.name)
    if data is not None and data.client_version < check.request.sub_version:
        raise FilterDataNotLatest("the consumer's consumer filter data not latest")


def check_filter_type(check: PullCheck) -> None:
    """Row 16: a filter of another type than TAG needs ``enablePropertyFilter``."""
    expression_type = check.subscription.expression_type
    if not is_tag_type(expression_type):
        check_filter_supported(expression_type, check.draft.properties.enable_property_filter)


def check_registration(check: PullCheck) -> None:
    """Row 17: with ``rejectPullConsumerEnable``, the consumer of a pull group has sent a heartbeat."""
    request = check.request
    if not check.draft.properties.reject_pull_consumer_enable or is_system_group(request.group):
        return
    consumers = check.registry.find_consumer_group(request.group)
    is_pull_group = consumers is None or consumers.consume_type is ConsumeType.ACTIVELY
    if is_pull_group and (consumers is None or request.channel_id not in consumers.members):
        raise SubscriptionNotExist(
            f"the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}"
        )
