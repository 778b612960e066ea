"""A cache of verdicts that are still valid: consumers repeat the same pull, and mostly nothing has changed in between.

The checks of a pull take several times as long as reading its messages. So what they have read is kept with their
verdict, and compared at the next pull (rules 3.1). If anything has changed, the checks run again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.pulling.request import PullRequest, PullVerdict
from rmqpull_broker.core.state.broker_state import BrokerState

KEY_CHARS_MAX = 4_096
"""The length of a pull's texts, mainly its subscription, above which its verdict is not kept."""
VERDICTS_MAX = 10_000
"""The most verdicts that are kept. Above this limit, the least recently used one is dropped."""
STANDING_MS_MAX = 60_000
"""How long a verdict is valid: the checks also record in the registry that a group pulls, and that record expires after
ten minutes."""


class StandingVerdict(NamedTuple):
    """A pull that passed all checks, the filter that they found, what they have read, and when the verdict expires."""

    request: PullRequest
    message_filter: MessageFilter
    seen: tuple[object, ...]
    until_ms: int


class StandingVerdicts:
    """The verdicts, by any key that distinguishes pulls that differ in more than their offsets."""

    def __init__(self, state: BrokerState, registry: ConsumerRegistry) -> None:
        self._state = state
        self._registry = registry
        self._verdicts: OrderedDict[Hashable, StandingVerdict] = OrderedDict()

    def __len__(self) -> int:
        return len(self._verdicts)

    def forget(self) -> None:
        """Drops all verdicts; the checks run again."""
        self._verdicts.clear()

    def find(self, key: Hashable, now_ms: int) -> StandingVerdict | None:
        """Returns the verdict that the checks would find again; None if they have to run."""
        found = self._verdicts.get(key)
        if found is None:
            return None
        request = found.request
        if (
            now_ms >= found.until_ms
            or (request.group, request.queue) in self._state.resets
            or found.seen != self._look(request)
        ):
            del self._verdicts[key]
            return None
        self._verdicts.move_to_end(key)
        return found

    def keep(self, key: tuple[Hashable, ...], request: PullRequest, verdict: PullVerdict, now_ms: int) -> None:
        """Keeps a verdict that has been applied, unless it is valid for this pull only."""
        is_about_channel = self._state.properties.reject_pull_consumer_enable
        if verdict.refusal is not None or verdict.reset_offset is not None or is_about_channel:
            return
        if sum(len(part) for part in key if isinstance(part, str)) > KEY_CHARS_MAX:
            return
        self._verdicts[key] = StandingVerdict(
            request, verdict.message_filter, self._look(request), now_ms + STANDING_MS_MAX
        )
        if len(self._verdicts) > VERDICTS_MAX:
            self._verdicts.popitem(last=False)

    def _look(self, request: PullRequest) -> tuple[object, ...]:
        """Returns all that the checks read, and what they write to the registry."""
        group, topic = request.group, request.queue.topic
        pulled = self._registry.find_compensated_group(group)
        subscription = None if pulled is None else pulled.subscriptions.get(topic)
        seen: tuple[object, ...] = (
            self._state.properties,
            self._state.find_topic(topic),
            self._state.find_group(group),
            pulled and (pulled.consume_type, pulled.message_model),
            subscription and (subscription.expression_type, subscription.expression),
        )
        members = None if request.brings_subscription else self._registry.find_consumer_group(group)
        if members is None:
            return seen
        return (*seen, members.message_model, members.subscriptions.get(topic), members.find_filter(topic))
