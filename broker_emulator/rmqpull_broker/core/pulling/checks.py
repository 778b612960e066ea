"""The checks before a pull reads a queue, in RocketMQ's order (rules 3.1).

The checks read state, registry and request, and change none of them. Side effects of a pull are facts in the draft (a
created group, an answered reset) or part of the verdict (the subscription to store).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.clients.members import ConsumeType, MessageModel
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.errors import (
    FAQ,
    BadRequest,
    BrokerError,
    ConsumerGroupNotFound,
    Forbidden,
    ForbiddenType,
    TopicNotFound,
)
from rmqpull_broker.core.model import PERM_READ
from rmqpull_broker.core.pulling import subscription_checks
from rmqpull_broker.core.pulling.consumer_offsets import answer_reset
from rmqpull_broker.core.pulling.request import (
    DEFAULT_CONTEXT,
    Compensation,
    PullCheck,
    PullContext,
    PullRequest,
    PullVerdict,
    RequestSource,
)
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted


def begin_pull(
    draft: Draft,
    registry: ConsumerRegistry,
    request: PullRequest,
    now_ms: int,
    context: PullContext = DEFAULT_CONTEXT,
    *,
    is_first_run: bool = True,
) -> PullVerdict:
    """Makes the checks, then sets the consumer offset that the pull carries (rules 3.1.2).

    The offset is set whatever the queue holds, also for OFFSET_RESET (rules 6.1). It is not set by a refused pull, nor
    when a parked pull runs again.
    """
    verdict = check_pull(draft, registry, request, now_ms, context)
    if verdict.refusal is None and is_first_run:
        set_offset_of_pull(draft, request)
    return verdict


def set_offset_of_pull(draft: Draft, request: PullRequest) -> None:
    """Sets the consumer offset that a pull carries, if any."""
    if request.sets_offset:
        draft.add(OffsetsCommitted(request.group, ((request.queue, request.commit_offset),)))


def check_pull(
    draft: Draft,
    registry: ConsumerRegistry,
    request: PullRequest,
    now_ms: int,
    context: PullContext = DEFAULT_CONTEXT,
    *,
    is_of_group_alone: bool = False,
) -> PullVerdict:
    """Makes the checks; the first that fails refuses the pull. Adds GroupPut and ResetsAnswered to the draft.

    ``now_ms`` becomes the version of the pull's own subscription. ``is_of_group_alone`` ends after row 4, before the
    checks of the topic.
    """
    check = PullCheck(draft, registry, request, now_ms, context)
    refusal = None
    try:
        for row, make_check in CHECKS.items():
            if is_of_group_alone and row == FIRST_ROW_OF_TOPIC:
                break
            make_check(check)
    except BrokerError as error:
        refusal = error
    return PullVerdict(refusal, check.message_filter, check.reset_offset, check.compensation)


def check_next_queue(draft: Draft, verdict: PullVerdict, request: PullRequest) -> PullVerdict:
    """Derives the verdict on another queue of a topic from that on the first one, which was not refused.

    Only row 19 can differ between two queues that consumers see: each may have its own reset.
    """
    reset = _take_reset(draft, request)
    return verdict if reset == verdict.reset_offset else replace(verdict, reset_offset=reset)


# --- broker, group, topic and queue ----------------------------------------------------------------------------------


def _check_broker_permission(check: PullCheck) -> None:
    if not check.draft.properties.broker_permission & PERM_READ:
        raise Forbidden(f"the broker[{check.context.broker_ip}] pulling message is forbidden", ForbiddenType.BROKER)


def _check_lite_pull(check: PullCheck) -> None:
    if check.request.is_lite and not check.draft.properties.lite_pull_message_enable:
        raise Forbidden(
            f"the broker[{check.context.broker_ip}] for lite pull consumer is forbidden", ForbiddenType.BROKER
        )


def _check_group(check: PullCheck) -> None:
    group = find_or_create_group(check.draft, check.request.group)
    if group is None:
        raise ConsumerGroupNotFound(f"subscription group [{check.request.group}] does not exist, {FAQ}")
    check.group = group


def _check_group_permission(check: PullCheck) -> None:
    if not check.group.consume_enable:
        raise Forbidden(f"subscription group no permission, {check.group.name}", ForbiddenType.GROUP)


def _check_topic(check: PullCheck) -> None:
    name = check.request.queue.topic
    topic = check.draft.find_topic(name)
    if topic is None:
        raise TopicNotFound(f"topic[{name}] not exist, apply first please! {FAQ}")
    check.topic = topic


def _check_topic_permission(check: PullCheck) -> None:
    if not check.topic.is_readable:
        raise Forbidden(f"the topic[{check.topic.name}] pulling message is forbidden", ForbiddenType.TOPIC)


def _check_queue(check: PullCheck) -> None:
    """Also sets the compensation: from this row on, Apache's broker records how the group consumes."""
    request, queue = check.request, check.request.queue
    if not check.draft.state.is_readable(check.topic, queue):
        raise BadRequest(
            f"queueId[{queue.queue_id}] is illegal, topic:[{check.topic.name}] "
            f"topicConfig.readQueueNums:[{check.topic.read_queue_nums}] consumer:[{request.remote_address}]"
        )
    consume_type, message_model = ConsumeType.PASSIVELY, MessageModel.CLUSTERING
    if request.request_source is RequestSource.PROXY_FOR_BROADCAST:
        message_model = MessageModel.BROADCASTING
    elif request.request_source is RequestSource.PROXY_FOR_STREAM:
        consume_type = ConsumeType.ACTIVELY
    check.compensation = Compensation(request.group, consume_type, message_model)


# --- resets -----------------------------------------------------------------------------------------------------------


def _take_reset(draft: Draft, request: PullRequest) -> int | None:
    if not draft.properties.use_server_side_reset_offset:
        return None
    return answer_reset(draft, request.group, request.queue)


def _answer_reset(check: PullCheck) -> None:
    check.reset_offset = _take_reset(check.draft, check.request)


CHECKS: dict[str, Callable[[PullCheck], None]] = {
    "1": _check_broker_permission,
    "2": _check_lite_pull,
    "3": _check_group,
    "4": _check_group_permission,
    "5": _check_topic,
    "6": _check_topic_permission,
    "8": _check_queue,
    "9a": subscription_checks.build_subscription,
    "9b": subscription_checks.check_members,
    "10": subscription_checks.check_broadcasting,
    "12": subscription_checks.check_subscription,
    "13": subscription_checks.check_subscription_version,
    "14": subscription_checks.check_filter,
    "15": subscription_checks.check_filter_version,
    "16": subscription_checks.check_filter_type,
    "17": subscription_checks.check_registration,
    "19": _answer_reset,
}
"""The checks by their row in rules 3.1.

The rows 0, 7, 11, 18, 20 and 21 are missing. They are about slaves, static topics, groups that may not read a topic,
cold data, offsets of broadcasting groups on a broker, and unreadable stores, none of which exist here.
"""
FIRST_ROW_OF_TOPIC = "5"
