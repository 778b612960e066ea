"""Offset specs: what options say about where queues start and end, in words, offsets and times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.timestamps import format_timestamp

EARLIEST = "earliest"
LATEST = "latest"
GROUP = "group"


class AtTime(NamedTuple):
    """The first message that the broker stored at this time or later, in milliseconds since the epoch."""

    timestamp_ms: int

    def __str__(self) -> str:
        return format_timestamp(self.timestamp_ms)


OffsetSpec = str | int | AtTime
"""EARLIEST, LATEST or GROUP; an offset; or a time."""
Scope = tuple[str | int, ...]
"""What a spec applies to: one :class:`MessageQueue`, a topic as ``(topic,)``, or all queues as ``()``."""
ALL_QUEUES: Scope = ()


@dataclass(frozen=True)
class OffsetSpecs:
    """The specs of one option. A spec of a queue overrides that of its topic, which overrides that of all queues."""

    by_scope: Mapping[Scope, OffsetSpec]

    @classmethod
    def for_all(cls, spec: OffsetSpec) -> OffsetSpecs:
        """One spec for all queues."""
        return cls({ALL_QUEUES: spec})

    def find(self, scope: Scope) -> OffsetSpec | None:
        """The spec that applies to a scope; None when there is none."""
        return next((self.by_scope[key] for key in (scope, scope[:1], ALL_QUEUES) if key in self.by_scope), None)


@dataclass(frozen=True)
class RankedSpecs:
    """The specs of several options by name, highest rank first. The last option has a spec for all queues."""

    options: Mapping[str, OffsetSpecs]

    def find(self, scope: Scope) -> tuple[str, OffsetSpec]:
        """The spec of the first option that has one for this scope, with the option's name."""
        found = ((name, specs.find(scope)) for name, specs in self.options.items())
        return next((name, spec) for name, spec in found if spec is not None)

    @property
    def scopes(self) -> set[Scope]:
        """Every scope that some option names."""
        return {scope for specs in self.options.values() for scope in specs.by_scope}

    def find_uses(self, wanted: OffsetSpec) -> list[tuple[str, Scope]]:
        """The options and scopes that have this spec."""
        return [
            (name, scope)
            for name, specs in self.options.items()
            for scope, spec in specs.by_scope.items()
            if spec == wanted
        ]

    def refuse_unknown_scopes(self, queues: Collection[MessageQueue]) -> None:
        """Raises OptionError when an option names a topic or queue that the query does not read."""
        known = {ALL_QUEUES, *queues, *((queue.topic,) for queue in queues)}
        for name, specs in self.options.items():
            unknown = [describe_scope(scope) for scope in specs.by_scope if scope not in known]
            if unknown:
                raise OptionError(
                    f"Option {name} names {', '.join(unknown)}, which this query does not read. "
                    f"It reads {', '.join(map(str, sorted(queues)))}."
                )


def describe_scope(scope: Scope) -> str:
    """A scope as error messages name it."""
    return "/".join(map(str, scope)) or "every queue"


def refuse_out_of_bounds(option: str, queue: MessageQueue, offset: int, bounds: Bounds) -> None:
    """Raises OptionError when an option asks for an offset that the queue does not have."""
    if not bounds.min_offset <= offset <= bounds.max_offset:
        raise OptionError(
            f"Option {option} asks for offset {offset} of queue {queue}, which has "
            f"[{bounds.min_offset}, {bounds.max_offset}). Choose an offset in this range, or a word such as latest."
        )
