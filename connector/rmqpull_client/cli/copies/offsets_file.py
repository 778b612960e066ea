"""The file of a copy: what is copied, and up to which offset of each queue.

It is written after each call that the target has acknowledged. So a copy that ended early goes on with the messages of
the call that was not acknowledged.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from rmqpull_client.model import MessageQueue

_VERSION = 1


class BadOffsets(ValueError):
    """A file does not have the offsets of a copy. The text says why."""


@dataclass(frozen=True)
class Copy:
    """From where to where a copy goes, and which messages it copies: servers with their namespace, topics, a filter."""

    from_servers: str
    from_topic: str
    to_servers: str
    to_topic: str
    expression: str
    expression_type: str


def encode_offsets(copy: Copy, offsets: Mapping[MessageQueue, int]) -> bytes:
    """Returns the content of the file. ``offsets`` are those of the next message to copy, by queue."""
    queues = [[queue.broker_name, queue.queue_id, offset] for queue, offset in sorted(offsets.items())]
    return json.dumps({"version": _VERSION, **asdict(copy), "queues": queues}, indent=2).encode() + b"\n"


def decode_offsets(data: bytes, wanted: Copy) -> dict[MessageQueue, int]:
    """Reads the offsets of a copy. Raises BadOffsets for the file of another one, and for what is no such file."""
    try:
        values: Any = json.loads(data)
        if (version := values["version"]) != _VERSION:
            raise BadOffsets(f"it has version {version}, and this release reads version {_VERSION}")
        for name, value in asdict(wanted).items():
            if values[name] != value:
                raise BadOffsets(f"it is of another copy, with {name} {values[name]!r} instead of {value!r}")
        return {
            MessageQueue(wanted.from_topic, str(broker_name), int(queue_id)): _check_offset(offset)
            for broker_name, queue_id, offset in values["queues"]
        }
    except BadOffsets:
        raise
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise BadOffsets(f"it does not have the offsets of a copy ({error!r})") from None


def _check_offset(offset: Any) -> int:
    if type(offset) is not int or offset < 0:
        raise BadOffsets(f"it has {offset!r} instead of the offset of a message")
    return offset
