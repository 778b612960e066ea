"""Subscriptions of consumers, and the filters that a broker keeps for them (rules 3.6, 3.12, 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from rmqpull_broker.core.errors import IllegalFilterExpression
from rmqpull_broker.core.filters.message_filter import (
    TAG,
    MessageFilter,
    check_filter_supported,
    parse_filter,
    parse_tags,
)

DEAD_FILTER_MS_MAX = 24 * 3_600_000
"""``filterDataCleanTimeSpan``: how long an unused filter is kept."""
FILTERS_MAX = 10_000
"""Filters of all groups. Above this limit, the oldest is removed; its group's next heartbeat adds it again."""

CompileFilter = Callable[[str, str], MessageFilter]


def is_tag_type(expression_type: str) -> bool:
    """Whether expressions of this type are tags. The empty type is TAG."""
    return expression_type in ("", TAG)


@dataclass(frozen=True)
class SubscriptionData:
    """A subscription of a group to a topic. ``sub_version`` is the time at which the client made it, in milliseconds.

    ``tags`` has the tags of a TAG expression. It is empty when the expression matches every message.
    """

    topic: str
    expression: str
    sub_version: int
    expression_type: str = TAG
    tags: frozenset[str] = frozenset()


def make_subscription_data(topic: str, expression_type: str, expression: str, sub_version: int) -> SubscriptionData:
    """Makes a subscription like a client library: the tags of a TAG expression are parsed, other expressions are not.

    Raises IllegalFilterExpression for ``||`` alone.
    """
    tags = parse_tags(expression).tags if is_tag_type(expression_type) else None
    return SubscriptionData(topic, expression, sub_version, expression_type or TAG, tags or frozenset())


def check_client_config(expression_type: str, expression: str, *, enable_property_filter: bool) -> None:
    """Checks a subscription like CHECK_CLIENT_CONFIG, which accepts every TAG expression (rules 3.12.2, 6.1).

    Raises FilterNotSupported without ``enablePropertyFilter``, and IllegalFilterExpression.
    """
    if not is_tag_type(expression_type):
        check_filter_supported(expression_type, enable_property_filter)
        parse_filter(expression_type, expression)


@dataclass(frozen=True)
class FilterData:
    """The compiled expression of one group for one topic. ``client_version`` is its newest subscription.

    ``dead_since_ms`` is the time at which the group unsubscribed from the topic. Pulls still find such a filter.
    """

    expression_type: str
    expression: str
    client_version: int
    compiled: MessageFilter = field(compare=False)
    dead_since_ms: int | None = None


class FilterTable:
    """Filters by group and topic, like Apache's ConsumerFilterManager. TAG subscriptions have no filter."""

    def __init__(self, compile_expression: CompileFilter = parse_filter) -> None:
        self._compile = compile_expression
        self._groups: dict[str, dict[str, FilterData]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def get(self, group: str, topic: str) -> FilterData | None:
        """Returns the filter, even an unused one; without a filter a pull gets FILTER_DATA_NOT_EXIST (rules 3.1)."""
        return self._groups.get(group, {}).get(topic)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now_ms: int) -> None:
        """Adds all subscriptions of a group's heartbeat. Filters for other topics become unused.

        An empty expression changes nothing, so a newer pull finds an old filter (rules 3.1, row 15). A newer malformed
        expression removes the filter (rules 3.1, row 14, 6.1).
        """
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tag_type(subscription.expression_type) and subscription.expression:
                self._register_one(group, subscription)
        self._retire_filters(group, topics, now_ms)

    def unregister(self, group: str, now_ms: int) -> None:
        """Makes all filters of a group unused, because its last member left."""
        self._retire_filters(group, set(), now_ms)

    def forget_dead(self, now_ms: int) -> None:
        """Removes the filters that were unused for 24 hours."""
        for group, filters in list(self._groups.items()):
            for topic, data in list(filters.items()):
                if data.dead_since_ms is not None and now_ms - data.dead_since_ms >= DEAD_FILTER_MS_MAX:
                    self._remove(group, topic)

    def _register_one(self, group: str, subscription: SubscriptionData) -> None:
        old = self.get(group, subscription.topic)
        if old is None:
            self._compile_into(group, subscription)
        elif subscription.sub_version > old.client_version and not _has_same_expression(old, subscription):
            self._remove(group, subscription.topic)
            self._compile_into(group, subscription)
        elif subscription.sub_version >= old.client_version:
            # The expression is not compiled again: the same version only means that the group is back.
            alive = replace(old, client_version=subscription.sub_version, dead_since_ms=None)
            self._groups[group][subscription.topic] = alive

    def _compile_into(self, group: str, subscription: SubscriptionData) -> None:
        try:
            compiled = self._compile(subscription.expression_type, subscription.expression)
        except IllegalFilterExpression:
            return  # the next pull gets the error
        data = FilterData(subscription.expression_type, subscription.expression, subscription.sub_version, compiled)
        self._groups.setdefault(group, {})[subscription.topic] = data
        if len(self) > FILTERS_MAX:
            oldest_group = next(iter(self._groups))
            self._remove(oldest_group, next(iter(self._groups[oldest_group])))

    def _remove(self, group: str, topic: str) -> None:
        del self._groups[group][topic]
        if not self._groups[group]:
            del self._groups[group]

    def _retire_filters(self, group: str, living_topics: set[str], now_ms: int) -> None:
        filters = self._groups.get(group, {})
        for topic, data in filters.items():
            if topic not in living_topics and data.dead_since_ms is None:
                filters[topic] = replace(data, dead_since_ms=now_ms)


def _has_same_expression(data: FilterData, subscription: SubscriptionData) -> bool:
    return (data.expression_type, data.expression) == (subscription.expression_type, subscription.expression)
