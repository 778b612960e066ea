"""Whether messages that the query has not read yet are gone, seen when a micro-batch is planned (rules 8.3)."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.loss import Loss, OnLoss, find_loss, refuse_loss
from rmqpull_client.model import MessageQueue, TopicBounds


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
        elif (loss := find_loss(queue, offset, bounds)) is not None:
            on_loss(loss)
            starts[queue] = bounds.clamp(offset)
    return starts


def refuse_cut_plan(planned: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> None:
    """Raises DataLoss for a queue that ends before where it was planned to be read to.

    AvailableNow plans once (rules 8.5): without this the batch that gets there would fail in its tasks.
    """
    for queue, until_offset in sorted(planned.items()):
        end = ends.get(queue, until_offset)
        if end < until_offset:
            text = (
                f"{until_offset - end} messages of queue {queue} are gone: the query was to read it to offset "
                f"{until_offset}, and it ends at {end} now: the topic was cut or created again."
            )
            refuse_loss(Loss(queue, end, until_offset, text))


def _created_again(name: str, topic: TopicBounds, finished: QueueOffsets) -> str | None:
    before = finished.creation_ids.get(name)
    if before is None or topic.creation_id in (None, before):
        return None
    return (
        f"Topic {name} was deleted and created again: its creation id was {before} and is {topic.creation_id}. "
        "What the query had not read of the old topic is gone."
    )
