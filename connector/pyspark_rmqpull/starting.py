"""Where a new query begins: the option ``startingOffsets``, read before any work and resolved once bounds are known."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark_rmqpull.errors import OptionError
from pyspark_rmqpull.model import Bounds, MessageQueue

EARLIEST = "earliest"
LATEST = "latest"
_EXPECTED = (
    "Expected 'earliest', 'latest', or JSON such as {\"orders\":\"earliest\"} or "
    '{"orders":{"broker-a":{"0":12,"1":"latest"}}}.'
)


@dataclass(frozen=True)
class StartingOffsets:
    """A word or a number for what is named; everything else follows ``default``."""

    default: str = LATEST
    topics: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[MessageQueue, str | int] = field(default_factory=dict)

    def resolve(self, bounds: Mapping[MessageQueue, Bounds]) -> dict[MessageQueue, int]:
        """The first offset to read of each queue. Raises OptionError for a queue or an offset that does not exist."""
        self._refuse_unknown(bounds)
        return {queue: self._resolve(queue, limits) for queue, limits in sorted(bounds.items())}

    def _refuse_unknown(self, bounds: Mapping[MessageQueue, Bounds]) -> None:
        existing = {queue.topic for queue in bounds}
        unknown = [str(queue) for queue in self.queues if queue not in bounds]
        unknown += [topic for topic in self.topics if topic not in existing]
        if unknown:
            raise OptionError(
                f"Option startingOffsets names {', '.join(unknown)}, which this query does not read. "
                f"It reads {', '.join(map(str, sorted(bounds)))}."
            )

    def _resolve(self, queue: MessageQueue, limits: Bounds) -> int:
        wanted = self.queues.get(queue, self.topics.get(queue.topic, self.default))
        if isinstance(wanted, str):
            return limits.min_offset if wanted == EARLIEST else limits.max_offset
        if not limits.min_offset <= wanted <= limits.max_offset:
            raise OptionError(
                f"Option startingOffsets asks for offset {wanted} of queue {queue}, which has "
                f"[{limits.min_offset}, {limits.max_offset}). Choose an offset in there, 'earliest' or 'latest'."
            )
        return wanted


def parse_starting_offsets(text: str) -> StartingOffsets:
    """Reads the option. Raises ValueError with what is wrong and what was expected."""
    if text.strip().lower() in (EARLIEST, LATEST):
        return StartingOffsets(text.strip().lower())
    try:
        form = json.loads(text, object_pairs_hook=_without_repeats)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"It is neither a word it knows nor JSON ({error}). {_EXPECTED}") from None
    if not isinstance(form, dict):
        raise ValueError(f"It is no JSON object. {_EXPECTED}")
    topics: dict[str, str] = {}
    queues: dict[MessageQueue, str | int] = {}
    for topic, wanted in form.items():
        if isinstance(wanted, dict):
            queues |= _queues_of(topic, wanted)
        else:
            topics[topic] = _word(topic, wanted)
    return StartingOffsets(LATEST, topics, queues)


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    form = dict(pairs)
    if len(form) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"It names {max(names, key=names.count)!r} twice. {_EXPECTED}")
    return form


def _queues_of(topic: str, brokers: Mapping[str, Any]) -> dict[MessageQueue, str | int]:
    queues: dict[MessageQueue, str | int] = {}
    for broker_name, offsets in brokers.items():
        if not isinstance(offsets, dict):
            raise ValueError(f"{topic}/{broker_name} has no queue ids with offsets. {_EXPECTED}")
        for queue_id, wanted in offsets.items():
            if not re.fullmatch("0|[1-9][0-9]*", queue_id):  # one spelling, so that no queue is named twice
                raise ValueError(f"{topic}/{broker_name} has queue id {queue_id!r}, not one like 0 or 12. {_EXPECTED}")
            queue = MessageQueue(topic, broker_name, int(queue_id))
            is_offset = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted >= 0
            queues[queue] = wanted if is_offset else _word(str(queue), wanted)
    return queues


def _word(place: str, wanted: Any) -> str:
    if isinstance(wanted, str) and wanted.lower() in (EARLIEST, LATEST):
        return wanted.lower()
    raise ValueError(f"{place} is set to {json.dumps(wanted)}. {_EXPECTED}")
