"""Where a batch read ends, and that it does not begin behind its end."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.planning.positions import AtTime, Position, Ranked, refuse_not_available, spelled
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue
from rmqpull_client.transports.port import OffsetLookUp


def resolve_ends(wanted: Ranked, bounds: Mapping[MessageQueue, Bounds], ask: OffsetLookUp) -> dict[MessageQueue, int]:
    """The offset before which each queue is read to: of a time, that of the first message stored then or later.

    A queue without such a message is read to its end (rules 8.6). Raises OptionError for a queue or an offset
    that does not exist, and what asking the broker raises.
    """
    wanted.refuse_unknown(bounds)
    said = {queue: wanted.of(queue) for queue in sorted(bounds)}
    times = {queue: at.timestamp_ms for queue, (_, at) in said.items() if isinstance(at, AtTime)}
    found = ask.find_offsets_at(times)
    ends = {}
    for queue, (option, position) in said.items():
        if isinstance(position, int):
            ends[queue] = refuse_not_available(option, queue, position, bounds[queue])
        else:
            ends[queue] = bounds[queue].clamp(found.get(queue, bounds[queue].max_offset))
    return ends


def refuse_start_after_end(starting: Ranked, ending: Ranked) -> None:
    """Raises OptionError when the options alone show it: both sides of a place are offsets, or both are times."""
    for place in sorted(starting.places() | ending.places(), key=str):
        (start_option, start), (end_option, end) = starting.of(place), ending.of(place)
        if _is_after(start, end):
            raise OptionError(
                f"Options {start_option} and {end_option} let {spelled(place)} begin at {start}, behind its end at "
                f"{end}. A start may be at its end, which reads nothing, but not behind it."
            )


def refuse_resolved_start_after_end(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> None:
    """Raises OptionError that names the first queue that begins behind its end."""
    for queue, end in sorted(ends.items()):
        if starts[queue] > end:
            raise OptionError(
                f"Queue {queue} is to be read from offset {starts[queue]}, behind its end at offset {end}. "
                "Check the starting and the ending options."
            )


def _is_after(start: Position, end: Position) -> bool:
    if isinstance(start, AtTime) and isinstance(end, AtTime):
        return start > end
    return isinstance(start, int) and isinstance(end, int) and start > end
