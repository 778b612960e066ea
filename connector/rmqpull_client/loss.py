"""Messages that should be read and are gone, and what to do about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmqpull_client.errors import DataLoss
from rmqpull_client.model import Bounds, MessageQueue, QueueRange

_ADVICE = (
    "If what is missing may be skipped, set option failOnDataLoss to false: the query goes on from the earliest "
    "message that is left. Otherwise restore the topic first."
)


class Loss(NamedTuple):
    """Messages ``[from_offset, until_offset)`` that are gone; an empty range where nobody knows how many."""

    queue: MessageQueue
    from_offset: int
    until_offset: int
    text: str


OnLoss = Callable[[Loss], None]
"""What to do about a loss: raise, or return to go on behind it."""


def refuse(loss: Loss) -> None:
    """Raises DataLoss with what to do."""
    raise DataLoss(f"{loss.text} {_ADVICE}")


def gone(entry: QueueRange) -> Loss:
    """The loss of all that was left of a range."""
    queue, from_offset, until_offset = entry
    text = (
        f"Queue {queue} is gone, or its topic was created again; "
        f"offsets [{from_offset}, {until_offset}) were still to be read."
    )
    return Loss(queue, from_offset, until_offset, text)


def outside(queue: MessageQueue, offset: int, bounds: Bounds) -> Loss | None:
    """What is lost when ``offset`` can neither be read nor waited for."""
    if offset < bounds.min_offset:
        text = (
            f"{bounds.min_offset - offset} messages of queue {queue} are gone: the query wanted offset {offset}, "
            f"the broker has [{bounds.min_offset}, {bounds.max_offset})."
        )
        return Loss(queue, offset, bounds.min_offset, text)
    if offset > bounds.max_offset:
        text = (
            f"Queue {queue} ends at offset {bounds.max_offset}, before offset {offset} where the query stood: "
            "the topic was cut or created again."
        )
        return Loss(queue, offset, offset, text)
    return None
