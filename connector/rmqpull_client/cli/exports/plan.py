"""The plan of an export: which offsets of which queues go to which files.

A folder has one export. The file ``export.json`` has its plan, and each other file one piece of a queue, named after
broker, queue and first offset. A file gets its name when it is complete and safe from a power cut, so an export that
ended early continues with the pieces that have no file, and no message is exported twice.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

from rmqpull_client.model import Bounds, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.timestamps import format_timestamp

PLAN_FILE = "export.json"
PIECE_ROWS = 500_000
"""The most offsets of one file."""
_OFFSETS_MAX = 1_000_000_000_000
"""The most offsets of one queue, and so of the files."""
_VERSION = 1


class BadPlan(ValueError):
    """A file is not the plan of an export. The text says why."""


class Piece(NamedTuple):
    """Offsets of one queue, and the name of their file."""

    range: QueueRange
    file_name: str


@dataclass(frozen=True)
class Plan:
    """An export: its topic, the form of its files, what is kept of a message, and which messages.

    ``servers`` are the addresses that the export was begun with, and the namespace. ``columns`` are those of a pull;
    none means all. Times are in milliseconds since the epoch; None is no limit. ``queues`` are broker name, queue id,
    first offset, and the offset after the last message.
    """

    servers: str
    topic: str
    format: str
    columns: tuple[str, ...]
    expression: str
    expression_type: str
    since_ms: int | None
    until_ms: int | None
    queues: tuple[tuple[str, int, int, int], ...]

    @property
    def message_filter(self) -> MessageFilter:
        """The filter of the messages."""
        return MessageFilter(self.expression, self.expression_type)

    @property
    def row_count(self) -> int:
        """The number of offsets of all queues."""
        return sum(until - first for _, _, first, until in self.queues)

    def list_pieces(self) -> list[Piece]:
        """Returns all pieces, those of all queues in turn, so that several processes read different queues."""
        of_queues = [list(self._list_pieces_of(*queue)) for queue in self.queues]
        longest = max(map(len, of_queues), default=0)
        return [pieces[at] for at in range(longest) for pieces in of_queues if at < len(pieces)]

    def _list_pieces_of(self, broker_name: str, queue_id: int, first: int, until: int) -> Sequence[Piece]:
        queue = MessageQueue(self.topic, broker_name, queue_id)
        return [
            Piece(
                QueueRange(queue, begin, min(until, begin + PIECE_ROWS)),
                f"{quote(broker_name, safe='')}-{queue_id}-{begin:020d}.{self.format}",
            )
            for begin in range(first, until, PIECE_ROWS)
        ]

    def list_left(self, file_names: Collection[str]) -> list[Piece]:
        """Returns the pieces that are not among the files of the folder."""
        return [piece for piece in self.list_pieces() if piece.file_name not in file_names]

    def find_difference(self, wanted: Plan) -> str | None:
        """Returns how the plan of a folder differs from what is asked for now, whatever the offsets; None: not."""
        own, other = self._describe(), wanted._describe()
        return next((f"{name} {own[name]} instead of {other[name]}" for name in own if own[name] != other[name]), None)

    def _describe(self) -> dict[str, str]:
        """Returns what the user has chosen, by the words of the command line."""
        since, until = ("none" if at is None else format_timestamp(at) for at in (self.since_ms, self.until_ms))
        is_filtered = not self.message_filter.keeps_everything
        return {
            "servers": self.servers,
            "topic": self.topic,
            "--format": self.format,
            "--columns": ",".join(self.columns) or "all",
            "filter": f"{self.expression} ({self.expression_type})" if is_filtered else "none",
            "--since": since,
            "--until": until,
        }


def encode_plan(plan: Plan) -> bytes:
    """Returns the content of a plan's file."""
    return json.dumps({"version": _VERSION, **asdict(plan)}, indent=2).encode() + b"\n"


def decode_plan(data: bytes) -> Plan:
    """Reads a plan. Raises BadPlan."""
    try:
        values: Any = json.loads(data)
        version = values.pop("version")
        if version != _VERSION:
            raise BadPlan(f"it has version {version}, and this release reads version {_VERSION}")
        queues = tuple(_check_queue(*queue) for queue in values.pop("queues"))
        plan = Plan(**{**values, "columns": tuple(values["columns"]), "queues": queues})
        texts = (plan.servers, plan.topic, plan.format, plan.expression, plan.expression_type, *plan.columns)
        times = (plan.since_ms, plan.until_ms)
        if not all(isinstance(text, str) for text in texts) or any(type(at) not in (int, type(None)) for at in times):
            raise BadPlan("it is not the plan of an export (a value is of the wrong kind)")
        return plan
    except BadPlan:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise BadPlan(f"it is not the plan of an export ({error!r})") from None


def _check_queue(broker_name: Any, queue_id: Any, first: Any, until: Any) -> tuple[str, int, int, int]:
    if not isinstance(broker_name, str) or any(type(number) is not int for number in (queue_id, first, until)):
        raise BadPlan(f"it is not the plan of an export (queue {broker_name!r}, {queue_id!r}, {first!r}, {until!r})")
    if not (0 <= queue_id < 1 << 31 and 0 <= first < until < 1 << 63 and until - first <= _OFFSETS_MAX):
        raise BadPlan(f"it has offsets {first} to {until} of queue {broker_name}/{queue_id}, which no queue has")
    return broker_name, queue_id, first, until


def list_queues(
    bounds: Mapping[MessageQueue, Bounds],
    since: Mapping[MessageQueue, int] | None,
    until: Mapping[MessageQueue, int] | None,
) -> tuple[tuple[str, int, int, int], ...]:
    """Returns the queues of a plan: the bounds, or the part of them between offsets. Empty queues are left out."""
    found = []
    for queue, own in bounds.items():
        first = own.min_offset if since is None else own.clamp(since[queue])
        end = own.max_offset if until is None else own.clamp(until[queue])
        if first < end:
            found.append((queue.broker_name, queue.queue_id, first, end))
    return tuple(sorted(found))
