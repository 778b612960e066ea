"""Data loss: messages that should be read and that the broker no longer has."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rmqpull_client.errors import DataLoss
from rmqpull_client.model import Bounds, MessageQueue, QueueRange

_AFTER = "continues after these messages, or at the end of the queue if it ends before them"


class Loss(NamedTuple):
    """The lost messages ``[from_offset, until_offset)``. The range is empty if their number is unknown.

    ``resume`` completes a sentence that begins with "the query": what a query does if it survives the loss.
    """

    queue: MessageQueue
    from_offset: int
    until_offset: int
    text: str
    resume: str = _AFTER


OnLoss = Callable[[Loss], None]
"""Decides about a loss: it raises an error to stop the read, or returns to continue after the lost messages."""


def refuse_loss(loss: Loss) -> None:
    """Raises DataLoss. Its text describes the loss, and what the query would do without this error."""
    raise DataLoss(
        f"{loss.text} To continue without them, set option failOnDataLoss to false (for a client's read: pass "
        f"on_loss); the query then {loss.resume}. Otherwise restore the topic first."
    )


def make_range_loss(entry: QueueRange) -> Loss:
    """Returns the loss of a whole range, whose queue no longer exists."""
    queue, from_offset, until_offset = entry
    text = (
        f"Queue {queue} no longer exists, or its topic was created again. "
        f"Offsets [{from_offset}, {until_offset}) had not been read."
    )
    resume = "skips these offsets, and looks for the queue again with the next micro-batch"
    return Loss(queue, from_offset, until_offset, text, resume)


def find_loss(queue: MessageQueue, offset: int, bounds: Bounds) -> Loss | None:
    """Returns what is lost if ``offset`` is the next one to read: None if it is within the bounds or at their end."""
    if offset < bounds.min_offset:
        text = (
            f"{bounds.min_offset - offset} messages of queue {queue} are lost: the query needs offset {offset}, "
            f"and the broker has [{bounds.min_offset}, {bounds.max_offset})."
        )
        resume = f"continues at offset {bounds.min_offset}, the earliest message that is left in the queue"
        return Loss(queue, offset, bounds.min_offset, text, resume)
    if offset > bounds.max_offset:
        text = (
            f"Queue {queue} ends at offset {bounds.max_offset}, before offset {offset}, which is the next one to read: "
            "the topic was truncated or created again."
        )
        resume = (
            f"continues at the end of the queue, which is offset {bounds.max_offset} now, and never reads the messages "
            "before it"
        )
        return Loss(queue, offset, offset, text, resume)
    return None
