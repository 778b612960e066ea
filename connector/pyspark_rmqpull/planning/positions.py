"""Where options say that a query begins and ends: words, offsets and times, of queues, of topics or of everything."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark_rmqpull.json_text import parse_json
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.timestamps import format_timestamp, parse_timestamp

EARLIEST = "earliest"
LATEST = "latest"
GROUP = "group"
START_WORDS = (EARLIEST, LATEST, GROUP)

_STARTS_EXPECTED = (
    "Expected 'earliest', 'latest', 'group', or JSON such as {\"orders\":\"earliest\"} or "
    '{"orders":{"broker-a":{"0":12,"1":"latest"}}}.'
)
_ENDS_EXPECTED = 'Expected \'latest\', or JSON such as {"orders":{"broker-a":{"0":12,"1":"latest"}}}.'
_TIMES_EXPECTED = (
    'Expected JSON such as {"orders":"2026-03-01T12:00:00Z"} or {"orders":{"broker-a":{"0":1772366400000}}}, '
    "with times in ISO 8601 or in milliseconds."
)


class AtTime(NamedTuple):
    """The first message that was stored then or later, in milliseconds since the epoch."""

    timestamp_ms: int

    def __str__(self) -> str:
        return format_timestamp(self.timestamp_ms)


Position = str | int | AtTime
"""A word, an offset, or a time."""
Place = tuple[str | int, ...]
"""A :class:`MessageQueue`, a topic as ``(topic,)``, or everything as ``()``."""
EVERYTHING: Place = ()


@dataclass(frozen=True)
class Positions:
    """What one option says, by place; a queue counts before its topic, and that before everything."""

    said: Mapping[Place, Position]

    def of(self, place: Place) -> Position | None:
        """What is said of a place; None for nothing."""
        return next((self.said[key] for key in (place, place[:1], EVERYTHING) if key in self.said), None)


@dataclass(frozen=True)
class Ranked:
    """Several options by name, the highest rank first: of each place counts the first that says something of it.

    The last one says something of everything.
    """

    options: Mapping[str, Positions]

    def of(self, place: Place) -> tuple[str, Position]:
        """The name of the option that counts, and what it says."""
        found = ((name, positions.of(place)) for name, positions in self.options.items())
        return next((name, position) for name, position in found if position is not None)

    def places(self) -> set[Place]:
        """Every place of which something is said."""
        return {place for positions in self.options.values() for place in positions.said}

    def options_with(self, position: Position) -> list[tuple[str, Place]]:
        """Which options say this, and of which places."""
        return [
            (name, place)
            for name, positions in self.options.items()
            for place, said in positions.said.items()
            if said == position
        ]

    def refuse_unknown(self, queues: Collection[MessageQueue]) -> None:
        """Raises OptionError when something is said of a topic or queue that is not read."""
        known = {EVERYTHING, *queues, *((queue.topic,) for queue in queues)}
        for name, positions in self.options.items():
            unknown = [spelled(place) for place in positions.said if place not in known]
            if unknown:
                raise OptionError(
                    f"Option {name} names {', '.join(unknown)}, which this query does not read. "
                    f"It reads {', '.join(map(str, sorted(queues)))}."
                )


def spelled(place: Place) -> str:
    """A place as people name it."""
    return "/".join(map(str, place)) or "every queue"


def refuse_not_available(option: str, queue: MessageQueue, offset: int, bounds: Bounds) -> int:
    """The offset itself. Raises OptionError when it is outside the queue's bounds."""
    if not bounds.min_offset <= offset <= bounds.max_offset:
        raise OptionError(
            f"Option {option} asks for offset {offset} of queue {queue}, which has "
            f"[{bounds.min_offset}, {bounds.max_offset}). Choose an offset in there, or a word."
        )
    return offset


def parse_starting_offsets(text: str) -> Positions:
    """Reads ``startingOffsets``. Raises ValueError with what is wrong and what was expected."""
    return _offsets(text, START_WORDS, _STARTS_EXPECTED)


def parse_ending_offsets(text: str) -> Positions:
    """Reads ``endingOffsets``. Raises ValueError with what is wrong and what was expected."""
    return _offsets(text, (LATEST,), _ENDS_EXPECTED)


def parse_starting_default(text: str) -> Positions:
    """Reads ``startingOffsetsDefault``. Raises ValueError."""
    if text.strip().lower() not in START_WORDS:
        raise ValueError("Expected 'earliest', 'latest' or 'group'.")
    return everything(text.strip().lower())


def parse_timestamp_of_everything(text: str) -> Positions:
    """Reads ``startingTimestamp`` or ``endingTimestamp``. Raises ValueError."""
    return everything(AtTime(parse_timestamp(text)))


def parse_offsets_by_timestamp(text: str) -> Positions:
    """Reads ``startingOffsetsByTimestamp`` or its ending twin. Raises ValueError."""
    return _nested(text, _time, _time, _TIMES_EXPECTED)


def everything(position: Position) -> Positions:
    """One position for all queues."""
    return Positions({EVERYTHING: position})


def _offsets(text: str, words: tuple[str, ...], expected: str) -> Positions:
    if text.strip().lower() in words:
        return everything(text.strip().lower())

    def word(wanted: Any) -> Position:
        if isinstance(wanted, str) and wanted.lower() in words:
            return wanted.lower()
        raise ValueError

    def word_or_offset(wanted: Any) -> Position:
        is_offset = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 0
        return int(wanted) if is_offset else word(wanted)

    return _nested(text, word, word_or_offset, expected, "neither a word it knows nor JSON")


def _time(wanted: Any) -> Position:
    if isinstance(wanted, bool) or not isinstance(wanted, (str, int)):
        raise ValueError
    return AtTime(parse_timestamp(str(wanted)))


Leaf = Callable[[Any], Position]
"""Reads a value of the JSON. Raises ValueError for what may not stand there."""


def _nested(text: str, of_topic: Leaf, of_queue: Leaf, expected: str, not_json: str = "no JSON") -> Positions:
    form = parse_json(text, expected, not_json)
    try:
        if not isinstance(form, dict):
            raise _Misplaced("It is no JSON object.")
        said: dict[Place, Position] = {}
        for topic, wanted in form.items():
            said |= (
                _of_brokers(topic, wanted, of_queue) if isinstance(wanted, dict) else _read(of_topic, (topic,), wanted)
            )
    except _Misplaced as error:
        raise ValueError(f"{error} {expected}") from None
    return Positions(said)


class _Misplaced(Exception):
    """Something in well-formed JSON that means nothing."""


def _of_brokers(topic: str, brokers: Mapping[str, Any], of_queue: Leaf) -> dict[Place, Position]:
    said: dict[Place, Position] = {}
    for broker_name, queues in brokers.items():
        if not isinstance(queues, dict):
            raise _Misplaced(f"{topic}/{broker_name} has no queue ids with what is wanted of them.")
        for queue_id, wanted in queues.items():
            if not re.fullmatch("0|[1-9][0-9]{0,9}", queue_id):  # one spelling, so that no queue is named twice
                raise _Misplaced(f"{topic}/{broker_name} has queue id {queue_id!r}, not one like 0 or 12.")
            said |= _read(of_queue, MessageQueue(topic, broker_name, int(queue_id)), wanted)
    return said


def _read(leaf: Leaf, place: Place, wanted: Any) -> dict[Place, Position]:
    try:
        return {place: leaf(wanted)}
    except ValueError:
        raise _Misplaced(f"{spelled(place)} is set to {json.dumps(wanted)}.") from None
