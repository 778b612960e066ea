"""Which topics and queues a query reads: options ``topic``, ``topicPattern`` and ``assign``, read before any work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pyspark_rmqpull.json_text import parse_json, repeated
from rmqpull_client.model import MessageQueue

_NAME = re.compile(r"[%|a-zA-Z0-9_-]{1,127}")
_ASSIGN_EXPECTED = 'Expected queue ids by topic and broker name, such as {"orders":{"broker-a":[0,1]}}.'


@dataclass(frozen=True)
class TopicSelection:
    """Topics by name, or those whose whole name a pattern matches, or single queues: one of the three."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    queues: frozenset[MessageQueue] = frozenset()

    @property
    def wanted_names(self) -> list[str]:
        """The topics that must exist."""
        return sorted({queue.topic for queue in self.queues}) or list(self.names)

    def matching(self, names: Iterable[str]) -> list[str]:
        """The names that the pattern matches as a whole, sorted.

        Retry and dead-letter topics, which come and go with consumer groups, only match a pattern that begins with %.
        """
        pattern = self.pattern or ""
        fits = re.compile(pattern).fullmatch
        return sorted(name for name in names if fits(name) and (pattern[:1] == "%" or not name.startswith("%")))

    def covers(self, queue: MessageQueue) -> bool:
        """Whether a queue is, or would be, read."""
        if self.queues:
            return queue in self.queues
        return queue.topic in self.names or (self.pattern is not None and bool(self.matching([queue.topic])))


def parse_topics(text: str) -> tuple[str, ...]:
    """Reads option ``topic``: names with commas between. Raises ValueError with what was expected."""
    names = tuple(name.strip() for name in text.split(","))
    for name in names:
        if not _NAME.fullmatch(name):
            raise ValueError("Expected names with commas between, each 1 to 127 of the characters a-z A-Z 0-9 _ - % |.")
    if twice := repeated(names):
        raise ValueError(f"It names {twice[0]!r} twice. Name each topic once.")
    return names


def parse_pattern(text: str) -> str:
    """Reads option ``topicPattern``. Raises ValueError for what is no regular expression."""
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"It is no regular expression of Python ({error}).") from None
    if not text:
        raise ValueError("It matches no topic's name. Expected a regular expression, such as orders-.*")
    return text


def parse_assign(text: str) -> frozenset[MessageQueue]:
    """Reads option ``assign``. Raises ValueError with what is wrong and what was expected."""
    form = parse_json(text, _ASSIGN_EXPECTED)
    queues = [
        MessageQueue(topic, broker_name, queue_id)
        for topic, brokers in _items(form, "It")
        for broker_name, queue_ids in _items(brokers, topic)
        for queue_id in _queue_ids(queue_ids, f"{topic}/{broker_name}")
    ]
    if twice := repeated(queues):
        raise ValueError(f"It names queue {twice[0]} twice. {_ASSIGN_EXPECTED}")
    return frozenset(queues)


def _items(form: Any, place: str) -> list[tuple[str, Any]]:
    if not isinstance(form, dict) or not form:
        raise ValueError(f"{place} is set to {json.dumps(form)}. {_ASSIGN_EXPECTED}")
    return list(form.items())


def _queue_ids(form: Any, place: str) -> list[int]:
    if not isinstance(form, list) or not form or any(type(entry) is not int or entry < 0 for entry in form):
        raise ValueError(f"{place} is set to {json.dumps(form)}. {_ASSIGN_EXPECTED}")
    return form
