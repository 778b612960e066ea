"""Which consumer gets which queues: RocketMQ's allocation strategies, with Spark partitions as the consumers.

Every strategy has the shape of RocketMQ's ``AllocateMessageQueueStrategy`` (rocketmq-semantics ch. 2): in go the sorted
queues of one topic and the sorted ids of all consumers, out come the queues of one consumer.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark_rmqpull.model import MessageQueue


def consumer_ids(count: int) -> list[str]:
    """Ids of ``count`` consumers whose order as strings, by which RocketMQ sorts them, is that of their numbers."""
    width = len(str(count - 1))
    return [f"{number:0{width}d}" for number in range(count)]


def allocate_averagely(
    consumer_id: str, queues: Sequence[MessageQueue], consumers: Sequence[str]
) -> list[MessageQueue]:
    """``AllocateMessageQueueAveragely``: contiguous blocks, the first ones longer by one (rocketmq-semantics 2.2).

    A consumer that is not among ``consumers`` gets nothing. Raises ValueError for the empty arguments that RocketMQ
    refuses, in its words (2.1).
    """
    for value, refusal in (
        (consumer_id, "currentCID is empty"),
        (queues, "mqAll is null or mqAll empty"),
        (consumers, "cidAll is null or cidAll empty"),
    ):
        if not value:
            raise ValueError(refusal)
    if consumer_id not in consumers:
        return []
    index = consumers.index(consumer_id)
    share, rest = divmod(len(queues), len(consumers))
    first = index * share + min(index, rest)
    return list(queues[first : first + share + (index < rest)])
