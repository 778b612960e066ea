"""The options of allocation as a user writes them. Every function raises ValueError with what was expected."""

from __future__ import annotations

import json
import re
from typing import Any

from pyspark_rmqpull.json_text import parse_json, repeated
from rmqpull_client.allocation.machine_room import MachineRoomResolver
from rmqpull_client.model import MessageQueue

CONSUMERS_MAX = 10_000
_LISTS = (
    'Expected a list of queues for each partition, such as [{"orders":{"broker-a":[0,1]}},{"orders":{"broker-a":[2]}}].'
)
_ROOMS = (
    "Expected the room of each broker, of each consumer, or of both, such as "
    '{"brokerDeployIn":{"broker-a":"room1"},"consumerDeployIn":{"c1":"room1"}}.'
)


def parse_names(text: str) -> tuple[str, ...]:
    """Consumer ids or rooms between commas, sorted as RocketMQ sorts consumer ids."""
    names = [name.strip() for name in text.split(",")]
    if not all(re.fullmatch("[!-~]+", name) for name in names) or len(names) > CONSUMERS_MAX:
        raise ValueError(f"Expected 1 to {CONSUMERS_MAX} names in ASCII without blanks, separated by commas.")
    if twice := repeated(names):
        raise ValueError(f"It names {twice[0]} twice.")
    return tuple(sorted(names))


def parse_message_queue_list(text: str) -> tuple[tuple[MessageQueue, ...], ...]:
    """The queues of each consumer of CONFIG, each queue on one list only: each would be read by whoever has it."""
    lists = parse_json(text, _LISTS)
    if not isinstance(lists, list) or not 1 <= len(lists) <= CONSUMERS_MAX:
        raise ValueError(_LISTS)
    parsed = tuple(_queues(entry) for entry in lists)
    named = [queue for queues in parsed for queue in queues]
    if not named:
        raise ValueError(f"It names no queue. {_LISTS}")
    if twice := repeated(named):
        raise ValueError(f"It names queue {twice[0]} twice, whose messages would be read twice.")
    return parsed


def _queues(entry: Any) -> tuple[MessageQueue, ...]:
    if not isinstance(entry, dict) or not all(isinstance(brokers, dict) for brokers in entry.values()):
        raise ValueError(_LISTS)
    named = [(topic, name, ids) for topic, brokers in entry.items() for name, ids in brokers.items()]
    for topic, name, ids in named:
        if not isinstance(ids, list) or not all(type(queue_id) is int and queue_id >= 0 for queue_id in ids):
            raise ValueError(f"{topic}/{name} has {json.dumps(ids)}, not queue ids such as [0,1]. {_LISTS}")
    return tuple(sorted(MessageQueue(topic, name, queue_id) for topic, name, ids in named for queue_id in ids))


def parse_machine_room_resolver(text: str) -> MachineRoomResolver:
    """The rooms of brokers and of consumers, by name."""
    form = parse_json(text, _ROOMS)
    if not isinstance(form, dict) or not form or not set(form) <= {"brokerDeployIn", "consumerDeployIn"}:
        raise ValueError(_ROOMS)
    for table in form.values():
        if not isinstance(table, dict) or not table or not all(isinstance(r, str) and r for r in table.values()):
            raise ValueError(_ROOMS)
    return MachineRoomResolver(form.get("brokerDeployIn", {}), form.get("consumerDeployIn", {}))
