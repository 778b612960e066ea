"""The checks before a pull reads the store, in the order in which RocketMQ makes them (rules 3.1).

They read state, registry and request, and change nothing: what a pull brings about beside its answer - a group made
anew, a subscription that is remembered, a reset that is used up - goes to the draft as facts or out with the verdict.
"""

from __future__ import annotations

from collections.abc import Callable

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.clients.members import ConsumerGroupInfo, ConsumeType, MessageModel
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.clients.subscriptions import SubscriptionData, is_tag_type
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    ConsumerGroupNotFound,
    FilterDataNotExist,
    FilterDataNotLatest,
    Forbidden,
    ForbiddenType,
    InternalError,
    NotLeaderForQueue,
    SubscriptionNotExist,
    SubscriptionNotLatest,
    TooManyRequests,
    TopicNotFound,
)
from rmqpull_broker.core.filters.message_filter import (
    EVERYTHING,
    TAG,
    MessageFilter,
    TagFilter,
    bind_constants,
    check_filter_supported,
    make_pull_filter,
    parse_tags,
)
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.model import PERM_READ, GroupConfig, TopicConfig
from rmqpull_broker.core.pulling.consumer_offsets import answer_reset
from rmqpull_broker.core.pulling.request import (
    DEFAULT_CONTEXT,
    Compensation,
    PullContext,
    PullRequest,
    PullVerdict,
    RequestSource,
)
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted
from rmqpull_broker.core.state.names import is_system_group

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."


def check_pull(
    draft: Draft,
    registry: ConsumerRegistry,
    request: PullRequest,
    now_ms: int,
    context: PullContext = DEFAULT_CONTEXT,
    *,
    is_of_group_alone: bool = False,
) -> PullVerdict:
    """Makes the checks; the first that fails answers. Adds GroupPut and ResetsAnswered to the draft.

    ``now_ms`` becomes the version of a subscription that the request brings. ``is_of_group_alone`` ends with row 4,
    before the topic is looked at.
    """
    checking = _Checking(draft, registry, request, now_ms, context)
    refusal = None
    try:
        for row, check in CHECKS.items():
            if is_of_group_alone and row == FIRST_ROW_OF_TOPIC:
                break
            check(checking)
    except BrokerError as error:
        refusal = error
    return PullVerdict(refusal, checking.message_filter, checking.reset_offset, checking.compensation)


class _Checking:
    """One pull under check, and what is known of it so far. Each method is a row of rules 3.1."""

    group: GroupConfig
    topic: TopicConfig
    consumers: ConsumerGroupInfo
    subscription: SubscriptionData

    def __init__(
        self, draft: Draft, registry: ConsumerRegistry, request: PullRequest, now_ms: int, context: PullContext
    ) -> None:
        self.draft = draft
        self.registry = registry
        self.request = request
        self.now_ms = now_ms
        self.context = context
        self.message_filter: MessageFilter = EVERYTHING
        self.reset_offset: int | None = None
        self.compensation: Compensation | None = None

    def is_served(self) -> None:
        role = self.context.role
        if role.is_slave and not role.slave_read_enable:
            raise TooManyRequests("[REJECTREQUEST]system busy, start flow control for a while")

    def broker_is_readable(self) -> None:
        if not self.draft.properties.broker_permission & PERM_READ:
            raise Forbidden(f"the broker[{self.context.broker_ip}] pulling message is forbidden", ForbiddenType.BROKER)

    def lite_pull_is_enabled(self) -> None:
        if self.request.is_lite and not self.draft.properties.lite_pull_message_enable:
            raise Forbidden(
                f"the broker[{self.context.broker_ip}] for lite pull consumer is forbidden", ForbiddenType.BROKER
            )

    def group_exists(self) -> None:
        group = find_or_create_group(self.draft, self.request.group)
        if group is None:
            raise ConsumerGroupNotFound(f"subscription group [{self.request.group}] does not exist, {FAQ}")
        self.group = group

    def group_may_consume(self) -> None:
        if not self.group.consume_enable:
            raise Forbidden(f"subscription group no permission, {self.group.name}", ForbiddenType.GROUP)

    def topic_exists(self) -> None:
        name = self.request.queue.topic
        topic = self.draft.find_topic(name)
        if topic is None:
            raise TopicNotFound(f"topic[{name}] not exist, apply first please! {FAQ}")
        self.topic = topic

    def topic_is_readable(self) -> None:
        if not self.topic.is_readable:
            raise Forbidden(f"the topic[{self.topic.name}] pulling message is forbidden", ForbiddenType.TOPIC)

    def broker_leads_queue(self) -> None:
        _, broker, queue_id = self.request.queue
        if not self.context.leads_queue:
            raise NotLeaderForQueue(
                f"{self.topic.name}-{queue_id} cannot find mapping item in request process of current broker {broker}"
            )

    def queue_is_readable(self) -> None:
        """Also what Apache's broker does no more: it knows how the group consumes, from here on."""
        queue = self.request.queue
        if not self.draft.state.is_readable(self.topic, queue):
            raise BadRequest(
                f"queueId[{queue.queue_id}] is illegal, topic:[{self.topic.name}] "
                f"topicConfig.readQueueNums:[{self.topic.read_queue_nums}] consumer:[{self.request.remote_address}]"
            )
        self.compensation = _basic_compensation(self.request)

    def subscription_is_built(self) -> None:
        request = self.request
        if not request.brings_subscription:
            return
        built = make_pull_filter(
            request.expression_type,
            request.subscription,
            self.draft.properties.enable_property_filter,
            is_strict=request.is_strict,
        )
        self.message_filter = bind_constants(built, make_common_properties(self.draft.properties))
        tags = self.message_filter.tags if isinstance(self.message_filter, TagFilter) else None
        self.subscription = SubscriptionData(
            request.queue.topic,
            request.subscription or "",
            self.now_ms,
            request.expression_type or TAG,
            tags or frozenset(),
        )
        if self.compensation is not None:
            self.compensation = self.compensation._replace(subscription=self.subscription)

    def group_has_members(self) -> None:
        if self.request.brings_subscription:
            return
        consumers = self.registry.consumer_group(self.request.group)
        if consumers is None:
            raise SubscriptionNotExist(f"the consumer's group info not exist{FAQ}")
        self.consumers = consumers

    def broadcasting_is_enabled(self) -> None:
        is_broadcasting = self._asks_registry and self.consumers.message_model is MessageModel.BROADCASTING
        if is_broadcasting and not self.group.consume_broadcast_enable:
            raise Forbidden(
                f"the consumer group[{self.group.name}] can not consume by broadcast way",
                ForbiddenType.BROADCASTING_DISABLE,
            )

    def topic_is_not_forbidden(self) -> None:
        if self._asks_registry and self.context.is_topic_forbidden:
            raise Forbidden(
                f"the consumer group[{self.group.name}] is forbidden for topic[{self.topic.name}]",
                ForbiddenType.SUBSCRIPTION,
            )

    def topic_is_subscribed(self) -> None:
        if not self._asks_registry:
            return
        subscription = self.consumers.subscription(self.topic.name)
        if subscription is None:
            raise SubscriptionNotExist(f"the consumer's subscription not exist{FAQ}")
        self.subscription = subscription

    def subscription_is_latest(self) -> None:
        if self._asks_registry and self.subscription.sub_version < self.request.sub_version:
            raise SubscriptionNotLatest("the consumer's subscription not latest")

    def filter_exists(self) -> None:
        if not self._asks_registry:
            return
        if is_tag_type(self.subscription.expression_type):
            self.message_filter = parse_tags(self.subscription.expression)
            return
        data = self.consumers.filter_data(self.topic.name)
        if data is None:
            raise FilterDataNotExist("The broker's consumer filter data is not exist!Your expression may be wrong!")
        self.message_filter = bind_constants(data.compiled, make_common_properties(self.draft.properties))

    def filter_is_latest(self) -> None:
        if not self._asks_registry or is_tag_type(self.subscription.expression_type):
            return
        data = self.consumers.filter_data(self.topic.name)
        if data is not None and data.client_version < self.request.sub_version:
            raise FilterDataNotLatest("the consumer's consumer filter data not latest")

    def filter_type_is_supported(self) -> None:
        expression_type = self.subscription.expression_type
        if not is_tag_type(expression_type):
            check_filter_supported(expression_type, self.draft.properties.enable_property_filter)

    def consumer_is_registered(self) -> None:
        request = self.request
        if not self.draft.properties.reject_pull_consumer_enable or is_system_group(request.group):
            return
        consumers = self.registry.consumer_group(request.group)
        is_pull_group = consumers is None or consumers.consume_type is ConsumeType.ACTIVELY
        if is_pull_group and (consumers is None or request.channel_id not in consumers.members):
            raise SubscriptionNotExist(
                f"the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}"
            )

    def data_is_warm(self) -> None:
        if self.context.reads_cold_data:
            raise TooManyRequests("This consumer group is reading cold data. It has been flow control")

    def reset_is_answered(self) -> None:
        if self.draft.properties.use_server_side_reset_offset:
            self.reset_offset = answer_reset(self.draft, self.request.group, self.request.queue)

    def broadcast_progress_is_answered(self) -> None:
        if self.reset_offset is None and self.context.broadcast_offset >= 0:
            self.reset_offset = self.context.broadcast_offset

    def store_is_readable(self) -> None:
        if self.reset_offset is None and not self.context.is_store_readable:
            raise InternalError("store getMessage return null")

    @property
    def _asks_registry(self) -> bool:
        return not self.request.brings_subscription


def _basic_compensation(request: PullRequest) -> Compensation:
    consume_type, message_model = ConsumeType.PASSIVELY, MessageModel.CLUSTERING
    if request.request_source is RequestSource.PROXY_FOR_BROADCAST:
        message_model = MessageModel.BROADCASTING
    elif request.request_source is RequestSource.PROXY_FOR_STREAM:
        consume_type = ConsumeType.ACTIVELY
    return Compensation(request.group, consume_type, message_model)


CHECKS: dict[str, Callable[[_Checking], None]] = {
    "0": _Checking.is_served,
    "1": _Checking.broker_is_readable,
    "2": _Checking.lite_pull_is_enabled,
    "3": _Checking.group_exists,
    "4": _Checking.group_may_consume,
    "5": _Checking.topic_exists,
    "6": _Checking.topic_is_readable,
    "7": _Checking.broker_leads_queue,
    "8": _Checking.queue_is_readable,
    "9a": _Checking.subscription_is_built,
    "9b": _Checking.group_has_members,
    "10": _Checking.broadcasting_is_enabled,
    "11": _Checking.topic_is_not_forbidden,
    "12": _Checking.topic_is_subscribed,
    "13": _Checking.subscription_is_latest,
    "14": _Checking.filter_exists,
    "15": _Checking.filter_is_latest,
    "16": _Checking.filter_type_is_supported,
    "17": _Checking.consumer_is_registered,
    "18": _Checking.data_is_warm,
    "19": _Checking.reset_is_answered,
    "20": _Checking.broadcast_progress_is_answered,
    "21": _Checking.store_is_readable,
}
"""By their row in rules 3.1; ``0`` stands before all of them."""
FIRST_ROW_OF_TOPIC = "5"


def begin_pull(
    draft: Draft,
    registry: ConsumerRegistry,
    request: PullRequest,
    now_ms: int,
    context: PullContext = DEFAULT_CONTEXT,
    *,
    is_first_run: bool = True,
) -> PullVerdict:
    """The checks, and then the commit that comes with a pull (rules 3.1.2).

    It commits whatever the store will answer, OFFSET_RESET included (rules 6.1). A refused pull does not commit, and
    neither does the run after a hold.
    """
    verdict = check_pull(draft, registry, request, now_ms, context)
    if verdict.refusal is None and is_first_run and request.commits:
        draft.add(OffsetsCommitted(request.group, ((request.queue, request.commit_offset),)))
    return verdict
