"""The text in which RocketMQ's clients keep a broadcasting group's offsets: a JSON object whose keys are queues.

No JSON parser reads it, for in JSON only texts are keys (rules 1.11)::

    {"offsetTable": {{"brokerName": "broker-a", "queueId": 0, "topic": "orders"}: 12}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from rmqpull_client.model import MessageQueue

_Parse = Callable[[str, int], tuple[Any, int]]
"""Gives the value that begins at a place of a text, and the place behind it and the blanks that follow."""

_BLANKS = re.compile(r"\s*")
_DECODER = json.JSONDecoder()
_OFFSETS = range(-(2**63), 2**63)


def format_offset_table(offsets: Mapping[MessageQueue, int]) -> str:
    """The text as RocketMQ 5.3.3 writes it, to the byte; only that queues are sorted, which there they are not."""
    entries = [
        f'{{\n\t\t\t"brokerName":{_text(broker_name)},\n\t\t\t"queueId":{queue_id},'
        f'\n\t\t\t"topic":{_text(topic)}\n\t\t}}:{offset}'
        for (topic, broker_name, queue_id), offset in sorted(offsets.items())
    ]
    table = "{" + ",".join(entries) + "\n\t}" if entries else "{}"
    return f'{{\n\t"offsetTable":{table}\n}}'


def _text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def parse_offset_table(text: str) -> dict[MessageQueue, int]:
    """Reads such a text, with any blanks and in any order. Raises ValueError with what is wrong where."""
    try:
        fields, end = _object(text, _skipped(text, 0), lambda name: _table if name == "offsetTable" else _value)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if end < len(text):
        raise ValueError(f"something follows it at character {end}")
    entries = dict(fields).get("offsetTable", [])
    return dict(_entry(queue, offset) for queue, offset in entries)


def _entry(queue: Any, offset: Any) -> tuple[MessageQueue, int]:
    if not isinstance(queue, dict):
        raise ValueError(f"{queue!r} stands where a queue is expected")
    found = MessageQueue(*(queue.get(name) for name in ("topic", "brokerName", "queueId")))  # type: ignore[arg-type]
    if [type(part) for part in (*found, offset)] != [str, str, int, int] or offset not in _OFFSETS:
        raise ValueError(f"{queue!r} has {offset!r}, where a queue and its offset are expected")
    return found, offset


def _object(text: str, at: int, parse_of: Callable[[Any], _Parse]) -> tuple[list[tuple[Any, Any]], int]:
    """The entries of an object, whose keys may be anything. ``parse_of`` gives what reads the value of a key."""
    entries: list[tuple[Any, Any]] = []
    at = _behind(text, at, "{")
    while text[at : at + 1] != "}":
        if entries:
            at = _behind(text, at, ",")
        key, at = _value(text, at)
        at = _behind(text, at, ":")
        value, at = parse_of(key if isinstance(key, str) else None)(text, at)
        entries.append((key, value))
    return entries, _behind(text, at, "}")


def _table(text: str, at: int) -> tuple[list[tuple[Any, Any]], int]:
    return _object(text, at, lambda _: _value)


def _value(text: str, at: int) -> tuple[Any, int]:
    value, at = _DECODER.raw_decode(text, at)
    return value, _skipped(text, at)


def _behind(text: str, at: int, sign: str) -> int:
    if text[at : at + 1] != sign:
        raise ValueError(f"character {at} is {text[at : at + 1]!r}, where {sign!r} is expected")
    return _skipped(text, at + 1)


def _skipped(text: str, at: int) -> int:
    match = _BLANKS.match(text, at)
    assert match is not None
    return match.end()
