"""Whether messages that the query has not read yet are gone, seen when a micro-batch is planned (connectors § 2.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from pyspark_rmqpull.errors import DataLoss
from pyspark_rmqpull.model import Bounds, MessageQueue, QueueRange, TopicBounds
from pyspark_rmqpull.offsets import QueueOffsets

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


def resume(
    finished: QueueOffsets, topics: Mapping[str, TopicBounds], ends_seen: Mapping[MessageQueue, int], on_loss: OnLoss
) -> dict[MessageQueue, int]:
    """Where to go on with the queues that cannot be read on from ``finished``, when ``on_loss`` lets it.

    No message comes twice: only a topic that was created again begins anew, a queue that was cut goes on at its end,
    and one that is gone keeps its place in case it comes back. ``ends_seen`` tells how much was to be read of a queue
    that is gone.
    """
    starts: dict[MessageQueue, int] = {}
    for queue, offset in sorted(finished.offsets.items()):
        topic = topics.get(queue.topic)
        known_end = max(offset, ends_seen.get(queue, offset))
        bounds = topic.queues.get(queue) if topic is not None else None
        if topic is not None and (text := _created_again(queue.topic, topic, finished)):
            on_loss(Loss(queue, offset, known_end, text))
            starts[queue] = bounds.min_offset if bounds is not None else 0
        elif bounds is None:
            on_loss(Loss(queue, offset, known_end, f"Queue {queue} is gone; the query stood at offset {offset} of it."))
        elif (loss := outside(queue, offset, bounds)) is not None:
            on_loss(loss)
            starts[queue] = bounds.nearest(offset)
    return starts


def refuse_cut_plan(planned: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> None:
    """Raises DataLoss for a queue that ends before where it was planned to be read to.

    AvailableNow plans once (connectors § 2.5): without this the batch that gets there would fail in its tasks.
    """
    for queue, until_offset in sorted(planned.items()):
        end = ends.get(queue, until_offset)
        if end < until_offset:
            text = (
                f"{until_offset - end} messages of queue {queue} are gone: the query was to read it to offset "
                f"{until_offset}, and it ends at {end} now: the topic was cut or created again."
            )
            refuse(Loss(queue, end, until_offset, text))


def _created_again(name: str, topic: TopicBounds, finished: QueueOffsets) -> str | None:
    before = finished.creation_ids.get(name)
    if before is None or topic.creation_id in (None, before):
        return None
    return (
        f"Topic {name} was deleted and created again: its creation id was {before} and is {topic.creation_id}. "
        "What the query had not read of the old topic is gone."
    )


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
