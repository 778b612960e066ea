"""What consumers subscribe to, and the filters that a broker keeps for them (rules 3.6, 3.12, 6.1)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from rmqpull_broker.core.errors import IllegalFilterExpression
from rmqpull_broker.core.filters.message_filter import TAG, MessageFilter, parse_filter, parse_tags

DEAD_FILTER_MS_MAX = 24 * 3_600_000
"""``filterDataCleanTimeSpan``: how long the filter of a topic that nobody subscribes to any more is remembered."""
FILTERS_MAX = 10_000
"""Filters over all groups; beyond it the oldest is forgotten, and its group's next heartbeat brings it back."""

CompileFilter = Callable[[str, str], MessageFilter]


def is_tag_type(expression_type: str) -> bool:
    """Whether expressions of this type are tags; the empty type is TAG."""
    return expression_type in ("", TAG)


@dataclass(frozen=True)
class SubscriptionData:
    """One topic that a group consumes, and what of it. ``sub_version`` is when the client said so, in milliseconds.

    ``tags`` holds the tags of a TAG expression; it is empty when every message is wanted.
    """

    topic: str
    expression: str
    sub_version: int
    expression_type: str = TAG
    tags: frozenset[str] = frozenset()


def make_subscription_data(topic: str, expression_type: str, expression: str, sub_version: int) -> SubscriptionData:
    """A subscription as a client's library builds it; a TAG expression is taken apart, another one only kept.

    Raises IllegalFilterExpression for ``||`` alone.
    """
    tags = parse_tags(expression).tags if is_tag_type(expression_type) else None
    return SubscriptionData(topic, expression, sub_version, expression_type or TAG, tags or frozenset())


@dataclass(frozen=True)
class FilterData:
    """The compiled expression of one group on one topic. ``client_version`` is the newest subscription that has it.

    ``dead_since_ms`` is when the group stopped subscribing to the topic; a pull still finds such a filter.
    """

    expression_type: str
    expression: str
    client_version: int
    compiled: MessageFilter = field(compare=False)
    dead_since_ms: int | None = None


class FilterTable:
    """Filters by group and topic, as Apache's ConsumerFilterManager keeps them: TAG subscriptions have none."""

    def __init__(self, compile_expression: CompileFilter = parse_filter) -> None:
        self._compile = compile_expression
        self._groups: dict[str, dict[str, FilterData]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._groups.values()))

    def get(self, group: str, topic: str) -> FilterData | None:
        """The filter, dead or alive; without one a pull is told FILTER_DATA_NOT_EXIST (rules 3.1)."""
        return self._groups.get(group, {}).get(topic)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData], now_ms: int) -> None:
        """Takes in all subscriptions of a group's heartbeat; filters of topics that it lacks die.

        An empty expression changes nothing, so a newer pull finds an old filter (rules 3.1, row 15). A newer malformed
        one removes the filter (rules 3.1, row 14, 6.1).
        """
        topics = set()
        for subscription in subscriptions:
            topics.add(subscription.topic)
            if not is_tag_type(subscription.expression_type) and subscription.expression:
                self._register_one(group, subscription)
        self._bury(group, topics, now_ms)

    def unregister(self, group: str, now_ms: int) -> None:
        """The group's last member left: all of its filters die."""
        self._bury(group, set(), now_ms)

    def forget_dead(self, now_ms: int) -> None:
        """Forgets what has been dead for 24 hours."""
        for group, filters in list(self._groups.items()):
            for topic, data in list(filters.items()):
                if data.dead_since_ms is not None and now_ms - data.dead_since_ms >= DEAD_FILTER_MS_MAX:
                    self._remove(group, topic)

    def _register_one(self, group: str, subscription: SubscriptionData) -> None:
        old = self.get(group, subscription.topic)
        if old is None:
            self._compile_into(group, subscription)
        elif subscription.sub_version > old.client_version and not _says_the_same(old, subscription):
            self._remove(group, subscription.topic)
            self._compile_into(group, subscription)
        elif subscription.sub_version >= old.client_version:
            # The same version says no more than that the group is back, whatever it subscribes to now.
            alive = replace(old, client_version=subscription.sub_version, dead_since_ms=None)
            self._groups[group][subscription.topic] = alive

    def _compile_into(self, group: str, subscription: SubscriptionData) -> None:
        try:
            compiled = self._compile(subscription.expression_type, subscription.expression)
        except IllegalFilterExpression:
            return  # the next pull is told
        data = FilterData(subscription.expression_type, subscription.expression, subscription.sub_version, compiled)
        self._groups.setdefault(group, {})[subscription.topic] = data
        if len(self) > FILTERS_MAX:
            oldest_group = next(iter(self._groups))
            self._remove(oldest_group, next(iter(self._groups[oldest_group])))

    def _remove(self, group: str, topic: str) -> None:
        del self._groups[group][topic]
        if not self._groups[group]:
            del self._groups[group]

    def _bury(self, group: str, living_topics: set[str], now_ms: int) -> None:
        filters = self._groups.get(group, {})
        for topic, data in filters.items():
            if topic not in living_topics and data.dead_since_ms is None:
                filters[topic] = replace(data, dead_since_ms=now_ms)


def _says_the_same(data: FilterData, subscription: SubscriptionData) -> bool:
    return (data.expression_type, data.expression) == (subscription.expression_type, subscription.expression)
