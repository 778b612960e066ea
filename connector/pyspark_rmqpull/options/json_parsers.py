"""Parsers of option values in JSON: queues, machine rooms and offset specs.

Every parser raises ValueError with what is wrong and what it expects. No name may occur twice: JSON would drop one.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from pyspark_rmqpull.planning.offset_specs import (
    EARLIEST,
    GROUP,
    LATEST,
    AtTime,
    OffsetSpec,
    OffsetSpecs,
    Scope,
    describe_scope,
)
from rmqpull_client.allocation.machine_room import MachineRoomResolver
from rmqpull_client.model import MessageQueue
from rmqpull_client.timestamps import parse_timestamp

CONSUMERS_MAX = 10_000
START_WORDS = (EARLIEST, LATEST, GROUP)

_ASSIGN_EXPECTED = 'Expected queue ids by topic and broker name, such as {"orders":{"broker-a":[0,1]}}.'
_LISTS_EXPECTED = (
    'Expected a list of queues for each partition, such as [{"orders":{"broker-a":[0,1]}},{"orders":{"broker-a":[2]}}].'
)
_ROOMS_EXPECTED = (
    "Expected the room of each broker, of each consumer, or of both, such as "
    '{"brokerDeployIn":{"broker-a":"room1"},"consumerDeployIn":{"c1":"room1"}}.'
)
_STARTS_EXPECTED = (
    "Expected 'earliest', 'latest', 'group', or JSON such as {\"orders\":\"earliest\"} or "
    '{"orders":{"broker-a":{"0":12,"1":"latest"}}}.'
)
_ENDS_EXPECTED = 'Expected \'latest\', or JSON such as {"orders":{"broker-a":{"0":12,"1":"latest"}}}.'
_TIMES_EXPECTED = (
    'Expected JSON such as {"orders":"2026-03-01T12:00:00Z"} or {"orders":{"broker-a":{"0":1772366400000}}}, '
    "with times in ISO 8601 or in milliseconds."
)

_T = TypeVar("_T")


class _Duplicate(Exception):
    """A name that occurs twice in one object."""


class _Invalid(Exception):
    """A part of well-formed JSON that has no meaning."""


def parse_json(text: str, expected: str, problem: str = "not valid JSON") -> Any:
    """Returns the value of a JSON text. Raises ValueError, which ends with ``expected``."""
    try:
        return json.loads(text, object_pairs_hook=_make_object)
    except _Duplicate as name:
        raise ValueError(f"It names {name} twice. {expected}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"It is {problem} ({error}). {expected}") from None


def find_repeated(values: Iterable[_T]) -> list[_T]:
    """Returns the values that occur more than once, each once."""
    return [value for value, count in Counter(values).items() if count > 1]


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if names := find_repeated(name for name, _ in pairs):
        raise _Duplicate(repr(names[0]))
    return dict(pairs)


def parse_assign(text: str) -> frozenset[MessageQueue]:
    """Parses ``assign``: queue ids by topic and broker name."""
    form = parse_json(text, _ASSIGN_EXPECTED)
    queues = [
        MessageQueue(topic, broker_name, queue_id)
        for topic, brokers in _list_items(form, "It")
        for broker_name, queue_ids in _list_items(brokers, topic)
        for queue_id in _check_queue_ids(queue_ids, f"{topic}/{broker_name}")
    ]
    if repeated := find_repeated(queues):
        raise ValueError(f"It names queue {repeated[0]} twice. {_ASSIGN_EXPECTED}")
    return frozenset(queues)


def _list_items(form: Any, owner: str) -> list[tuple[str, Any]]:
    if not isinstance(form, dict) or not form:
        raise ValueError(f"{owner} is set to {json.dumps(form)}. {_ASSIGN_EXPECTED}")
    return list(form.items())


def _check_queue_ids(form: Any, owner: str) -> list[int]:
    if not isinstance(form, list) or not form or any(type(entry) is not int or entry < 0 for entry in form):
        raise ValueError(f"{owner} is set to {json.dumps(form)}. {_ASSIGN_EXPECTED}")
    return form


def parse_message_queue_list(text: str) -> tuple[tuple[MessageQueue, ...], ...]:
    """Parses ``messageQueueList``: the queues of each partition. No queue may be in two partitions."""
    lists = parse_json(text, _LISTS_EXPECTED)
    if not isinstance(lists, list) or not 1 <= len(lists) <= CONSUMERS_MAX:
        raise ValueError(_LISTS_EXPECTED)
    parsed = tuple(_parse_queues(entry) for entry in lists)
    queues = [queue for entry in parsed for queue in entry]
    if not queues:
        raise ValueError(f"It names no queue. {_LISTS_EXPECTED}")
    if repeated := find_repeated(queues):
        raise ValueError(f"It names queue {repeated[0]} twice, so its messages would be read twice.")
    return parsed


def _parse_queues(entry: Any) -> tuple[MessageQueue, ...]:
    if not isinstance(entry, dict) or not all(isinstance(brokers, dict) for brokers in entry.values()):
        raise ValueError(_LISTS_EXPECTED)
    named = [(topic, name, ids) for topic, brokers in entry.items() for name, ids in brokers.items()]
    for topic, name, ids in named:
        if not isinstance(ids, list) or not all(type(queue_id) is int and queue_id >= 0 for queue_id in ids):
            raise ValueError(f"{topic}/{name} has {json.dumps(ids)}, not queue ids such as [0,1]. {_LISTS_EXPECTED}")
    return tuple(sorted(MessageQueue(topic, name, queue_id) for topic, name, ids in named for queue_id in ids))


def parse_machine_room_resolver(text: str) -> MachineRoomResolver:
    """Parses ``machineRoomResolver``: the rooms of brokers and of consumers, by name."""
    form = parse_json(text, _ROOMS_EXPECTED)
    if not isinstance(form, dict) or not form or not set(form) <= {"brokerDeployIn", "consumerDeployIn"}:
        raise ValueError(_ROOMS_EXPECTED)
    for table in form.values():
        if not isinstance(table, dict) or not table or not all(isinstance(r, str) and r for r in table.values()):
            raise ValueError(_ROOMS_EXPECTED)
    return MachineRoomResolver(form.get("brokerDeployIn", {}), form.get("consumerDeployIn", {}))


def parse_starting_offsets(text: str) -> OffsetSpecs:
    """Parses ``startingOffsets``: a word, or words and offsets by topic or queue."""
    return _parse_offsets(text, START_WORDS, _STARTS_EXPECTED)


def parse_ending_offsets(text: str) -> OffsetSpecs:
    """Parses ``endingOffsets``: ``latest``, or ``latest`` and offsets by topic or queue."""
    return _parse_offsets(text, (LATEST,), _ENDS_EXPECTED)


def parse_starting_default(text: str) -> OffsetSpecs:
    """Parses ``startingOffsetsDefault``: a word."""
    if text.strip().lower() not in START_WORDS:
        raise ValueError("Expected 'earliest', 'latest' or 'group'.")
    return OffsetSpecs.for_all(text.strip().lower())


def parse_timestamp_of_all(text: str) -> OffsetSpecs:
    """Parses ``startingTimestamp`` or ``endingTimestamp``: one time for all queues."""
    return OffsetSpecs.for_all(AtTime(parse_timestamp(text)))


def parse_offsets_by_timestamp(text: str) -> OffsetSpecs:
    """Parses ``startingOffsetsByTimestamp`` or ``endingOffsetsByTimestamp``: times by topic or queue."""
    return _parse_specs(text, _parse_time, _parse_time, _TIMES_EXPECTED)


def _parse_offsets(text: str, words: tuple[str, ...], expected: str) -> OffsetSpecs:
    if text.strip().lower() in words:
        return OffsetSpecs.for_all(text.strip().lower())

    def parse_word(value: Any) -> OffsetSpec:
        if isinstance(value, str) and value.lower() in words:
            return value.lower()
        raise ValueError

    def parse_word_or_offset(value: Any) -> OffsetSpec:
        is_offset = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        return int(value) if is_offset else parse_word(value)

    return _parse_specs(text, parse_word, parse_word_or_offset, expected, "neither a known word nor valid JSON")


def _parse_time(value: Any) -> OffsetSpec:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError
    return AtTime(parse_timestamp(str(value)))


SpecParser = Callable[[Any], OffsetSpec]
"""Parses one value of the JSON. Raises ValueError for a value that is not allowed there."""


def _parse_specs(
    text: str, parse_topic: SpecParser, parse_queue: SpecParser, expected: str, problem: str = "not valid JSON"
) -> OffsetSpecs:
    form = parse_json(text, expected, problem)
    try:
        if not isinstance(form, dict):
            raise _Invalid("It is not a JSON object.")
        specs: dict[Scope, OffsetSpec] = {}
        for topic, value in form.items():
            if isinstance(value, dict):
                specs |= _parse_brokers(topic, value, parse_queue)
            else:
                specs[(topic,)] = _parse_spec((topic,), value, parse_topic)
    except _Invalid as error:
        raise ValueError(f"{error} {expected}") from None
    return OffsetSpecs(specs)


def _parse_brokers(topic: str, brokers: Mapping[str, Any], parse: SpecParser) -> dict[Scope, OffsetSpec]:
    specs: dict[Scope, OffsetSpec] = {}
    for broker_name, queues in brokers.items():
        if not isinstance(queues, dict):
            raise _Invalid(f"{topic}/{broker_name} is not an object with a value for each queue id.")
        for queue_id, value in queues.items():
            if not re.fullmatch("0|[1-9][0-9]{0,9}", queue_id):  # one spelling, so that no queue is named twice
                raise _Invalid(f"{topic}/{broker_name} has queue id {queue_id!r}, not one such as 0 or 12.")
            queue = MessageQueue(topic, broker_name, int(queue_id))
            specs[queue] = _parse_spec(queue, value, parse)
    return specs


def _parse_spec(scope: Scope, value: Any, parse: SpecParser) -> OffsetSpec:
    try:
        return parse(value)
    except ValueError:
        raise _Invalid(f"{describe_scope(scope)} is set to {json.dumps(value)}.") from None
