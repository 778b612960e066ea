"""Whether messages that the query has not read yet are gone, seen when a micro-batch is planned (connectors § 2.3)."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.errors import DataLoss
from pyspark_rmqpull.model import Bounds, MessageQueue, TopicBounds
from pyspark_rmqpull.offsets import QueueOffsets

_ADVICE = (
    "If what is missing may be skipped, start the query with a new checkpoint and startingOffsets as wanted; "
    "otherwise restore the topic first."
)


def refuse_loss(finished: QueueOffsets, topics: Mapping[str, TopicBounds]) -> None:
    """Raises DataLoss when some queue cannot be read on from ``finished``, naming queue, offsets and what to do."""
    for topic, creation_id in finished.creation_ids.items():
        now = topics[topic].creation_id if topic in topics else None
        if now is not None and now != creation_id:
            raise DataLoss(
                f"Topic {topic} was deleted and created again: its creation id was {creation_id} and is {now}. "
                f"What the query had not read of the old topic is gone. {_ADVICE}"
            )
    for queue, offset in finished.offsets.items():
        bounds = topics[queue.topic].queues.get(queue) if queue.topic in topics else None
        if bounds is None:
            raise DataLoss(f"Queue {queue} is gone; the query stood at offset {offset} of it. {_ADVICE}")
        refuse_outside(queue, offset, bounds)


def refuse_outside(queue: MessageQueue, offset: int, bounds: Bounds) -> None:
    """Raises DataLoss unless ``offset`` can be read or waited for."""
    if offset < bounds.min_offset:
        raise DataLoss(
            f"{bounds.min_offset - offset} messages of queue {queue} are gone: the query wanted offset {offset}, "
            f"the broker has [{bounds.min_offset}, {bounds.max_offset}). {_ADVICE}"
        )
    if offset > bounds.max_offset:
        raise DataLoss(
            f"Queue {queue} ends at offset {bounds.max_offset}, before offset {offset} where the query stood: "
            f"the topic was cut or created again. {_ADVICE}"
        )
